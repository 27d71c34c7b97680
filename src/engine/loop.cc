// SPDX-License-Identifier: Apache-2.0
#include "engine/loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "metadata/index.h"

namespace headrace::engine {
namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

SequenceLengths lengths_of(const Sequence& sequence) {
  SequenceLengths lengths;
  lengths.num_tokens = sequence.num_tokens();
  if (sequence.is_running()) {
    lengths.num_computed_tokens = sequence.running().num_computed_tokens;
    lengths.num_pages = static_cast<int32_t>(sequence.running().pages.size());
  }
  return lengths;
}

ops::RowSampling row_sampling(const Sequence& sequence) {
  const SamplingParams& params = sequence.sampling();
  return {.temperature = params.temperature,
          .top_p = params.top_p,
          .top_k = params.top_k,
          .choice_index = params.choice_index,
          .seed = params.seed,
          .output_position = sequence.num_generated_tokens()};
}

}  // namespace

LiveRequest::LiveRequest(Sequence sequence_in, UpdateCallback callback_in,
                         std::shared_ptr<const Tokenizer> tokenizer)
    : sequence(std::move(sequence_in)), callback(std::move(callback_in)) {
  if (tokenizer != nullptr) detokenizer.emplace(std::move(tokenizer), true);
}

EngineLoop::EngineLoop(Runner& runner, const SchedulerLimits& limits, int32_t vocab_size,
                       int32_t num_pages, int32_t num_slots, LoopHooks hooks)
    : runner_(runner),
      limits_(limits),
      vocab_size_(vocab_size),
      pages_(num_pages, limits.page_size),
      slots_(num_slots),
      hooks_(std::move(hooks)) {}

void EngineLoop::add(std::unique_ptr<LiveRequest> request) {
  ++counters_.requests_submitted;
  waiting_.push_back(std::move(request));
  if (hooks_.publish) hooks_.publish(metrics());
}

void EngineLoop::cancel(RequestId id) {
  const auto has_id = [id](const auto& request) { return request->sequence.id() == id; };
  const auto take_from = [&](auto& queue) {
    const auto found = std::find_if(queue.begin(), queue.end(), has_id);
    if (found == queue.end()) return;
    std::unique_ptr<LiveRequest> request = std::move(*found);
    queue.erase(found);
    finish(std::move(request), std::nullopt, FinishReason::kCancelled, {});
  };
  take_from(running_);
  take_from(waiting_);
  publish_and_deliver();
}

void EngineLoop::cancel_all() {
  for (auto& request : std::exchange(running_, {})) {
    finish(std::move(request), std::nullopt, FinishReason::kCancelled, {});
  }
  for (auto& request : std::exchange(waiting_, {})) {
    finish(std::move(request), std::nullopt, FinishReason::kCancelled, {});
  }
  publish_and_deliver();
}

void EngineLoop::step() {
  const Clock::time_point start = Clock::now();
  rows_.clear();
  try {
    plan();
    preempt_planned();
    admit_planned();
    prepare_rows();
    HEADRACE_CHECK(!rows_.empty() || !plan_.preempted.empty(), "no sequence can be scheduled");
    if (!rows_.empty()) {
      commit(runner_.run(rows_));
      count_step(seconds(Clock::now() - start));
    }
  } catch (const std::exception& error) {
    fail_step(error.what());
  }
  publish_and_deliver();
}

void EngineLoop::plan() {
  running_lengths_.clear();
  for (const auto& request : running_) running_lengths_.push_back(lengths_of(request->sequence));
  waiting_lengths_.clear();
  const size_t most = std::min(waiting_.size(), static_cast<size_t>(limits_.max_rows));
  for (size_t i = 0; i < most; ++i) waiting_lengths_.push_back(lengths_of(waiting_[i]->sequence));
  SchedulerInput input;
  input.running = running_lengths_;
  input.waiting = waiting_lengths_;
  input.free_pages = pages_.num_free();
  input.free_slots = slots_.num_free();
  input.prefill_first = plan_.prefill_was_left_out;
  plan_step(limits_, input, plan_);
}

// The youngest first, each in front of the queue: there the oldest stands first again.
void EngineLoop::preempt_planned() {
  for (size_t i = 0; i < plan_.preempted.size(); ++i) {
    release(running_.back()->sequence.preempt());
    waiting_.push_front(std::move(running_.back()));
    running_.pop_back();
    ++counters_.preemptions;
  }
}

void EngineLoop::admit_planned() {
  for (int32_t i = 0; i < plan_.num_admitted; ++i) {
    LiveRequest& request = *waiting_.front();
    const bool is_first = !request.sequence.was_admitted();
    request.sequence.admit(slots_.take());
    // All room at once: a step that grants a page allocates nothing.
    request.sequence.running().pages.reserve(static_cast<size_t>(
        metadata::pages_for(request.sequence.max_total_tokens(), limits_.page_size)));
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    if (!is_first) continue;
    request.first_scheduled = Clock::now();
    counters_.prompt_tokens += request.sequence.num_prompt_tokens();
    if (hooks_.left_queue) hooks_.left_queue();
  }
}

// Admitted sequences stand behind those that ran, and none was preempted in the same step: the
// plan's indices are indices of running_.
void EngineLoop::prepare_rows() {
  for (const PlannedRow& planned : plan_.rows) {
    Sequence& sequence = running_[static_cast<size_t>(planned.sequence)]->sequence;
    Running& state = sequence.running();
    const bool granted = pages_.grow(state.pages, planned.new_pages);
    HEADRACE_CHECK(granted, "the plan grants pages that are not there");
    const auto context = static_cast<size_t>(state.num_computed_tokens);
    RunnerRow row;
    row.token_ids = sequence.tokens().subspan(context, static_cast<size_t>(planned.query_len));
    row.pages = state.pages;
    row.context_len = state.num_computed_tokens;
    row.slot = state.slot;
    row.emit = planned.emit;
    if (row.emit) row.sampling = row_sampling(sequence);
    rows_.push_back(row);
  }
}

void EngineLoop::commit(std::span<const int32_t> sampled) {
  size_t next = 0;
  for (const PlannedRow& planned : plan_.rows) {
    std::unique_ptr<LiveRequest>& request = running_[static_cast<size_t>(planned.sequence)];
    counters_.recomputed_tokens += request->sequence.advance(planned.query_len);
    if (!planned.emit) continue;
    const int32_t token = sampled[next++];
    if (token < 0 || token >= vocab_size_) {
      finish(std::move(request), std::nullopt, FinishReason::kError,
             internal_error("the model gave no usable logits: check the weights, and report this "
                            "if they are sound"));
      continue;
    }
    ++counters_.generated_tokens;
    if (!request->first_token) request->first_token = Clock::now();
    const FinishReason reason = request->sequence.append(token);
    if (reason == FinishReason::kNone) {
      Delivery delivery;
      delivery.request = request.get();
      delivery.token = token;
      deliveries_.push_back(std::move(delivery));
    } else {
      finish(std::move(request), token, reason, {});
    }
  }
  std::erase(running_, nullptr);
}

void EngineLoop::count_step(double step_seconds) {
  const bool decode_only = std::all_of(plan_.rows.begin(), plan_.rows.end(),
                                       [](const PlannedRow& row) { return row.is_decode; });
  ++counters_.steps;
  counters_.decode_only_steps += decode_only ? 1 : 0;
  counters_.step_seconds += step_seconds;
}

// Fails whoever was in the step; before rows were made nobody can be told apart, so all that run,
// or, when nothing runs, all that wait: the engine must not try the same step for ever.
void EngineLoop::fail_step(const std::string& what) {
  log(LogLevel::kError, "a step failed: {}", what);
  const Status status = internal_error("a step failed: " + what);
  plan_.prefill_was_left_out = false;
  for (Delivery& delivery : deliveries_) delivery.request = delivery.finished.get();
  std::erase_if(deliveries_, [](const Delivery& delivery) { return delivery.request == nullptr; });
  const auto fail = [&](std::unique_ptr<LiveRequest>& request) {
    if (request != nullptr) {
      finish(std::move(request), std::nullopt, FinishReason::kError, status);
    }
  };
  if (!rows_.empty()) {
    for (const PlannedRow& planned : plan_.rows) {
      fail(running_[static_cast<size_t>(planned.sequence)]);
    }
    std::erase(running_, nullptr);
  } else if (!running_.empty()) {
    for (auto& request : std::exchange(running_, {})) fail(request);
  } else {
    for (auto& request : std::exchange(waiting_, {})) fail(request);
  }
}

void EngineLoop::finish(std::unique_ptr<LiveRequest> request, std::optional<int32_t> token,
                        FinishReason reason, Status status) {
  if (!request->sequence.was_admitted() && hooks_.left_queue) hooks_.left_queue();
  release(request->sequence.finish(reason));
  switch (reason) {
    case FinishReason::kCancelled:
      ++counters_.requests_cancelled;
      break;
    case FinishReason::kError:
      ++counters_.requests_failed;
      break;
    default:
      ++counters_.requests_finished;
  }
  Delivery delivery;
  delivery.request = request.get();
  delivery.finished = std::move(request);
  delivery.token = token;
  delivery.finish = reason;
  delivery.status = std::move(status);
  deliveries_.push_back(std::move(delivery));
}

// A pool that finds itself inconsistent must not take the engine down: what it lost stays lost.
void EngineLoop::release(Running held) {
  try {
    pages_.release(held.pages);
    if (held.slot != 0) slots_.release(held.slot);
  } catch (const std::exception& error) {
    log(LogLevel::kError, "cannot free the pages or the slot of a request: {}", error.what());
  }
}

void EngineLoop::publish_and_deliver() {
  if (hooks_.publish) hooks_.publish(metrics());
  for (Delivery& delivery : deliveries_) deliver(delivery);
  deliveries_.clear();
}

void EngineLoop::deliver(Delivery& delivery) {
  LiveRequest& request = *delivery.request;
  const Clock::time_point now = Clock::now();
  update_.id = request.sequence.id();
  update_.token_ids.clear();
  update_.text.clear();
  if (delivery.token) {
    update_.token_ids.push_back(*delivery.token);
    if (request.detokenizer && delivery.finish != FinishReason::kStop) {
      update_.text = request.detokenizer->push(*delivery.token);
    }
  }
  if (request.detokenizer && delivery.finish != FinishReason::kNone) {
    update_.text += request.detokenizer->finish();
  }
  update_.finish = delivery.finish;
  update_.status = std::move(delivery.status);
  update_.num_prompt_tokens = request.sequence.num_prompt_tokens();
  update_.num_generated_tokens = request.sequence.num_generated_tokens();
  update_.timings.queued_s = seconds(request.first_scheduled.value_or(now) - request.submitted);
  update_.timings.first_token_s =
      request.first_token ? seconds(*request.first_token - request.submitted) : 0.0;
  update_.timings.total_s = seconds(now - request.submitted);
  if (request.callback) request.callback(update_);
}

MetricsSnapshot EngineLoop::metrics() const {
  MetricsSnapshot snapshot = counters_;
  snapshot.num_running = static_cast<int64_t>(running_.size());
  snapshot.num_waiting = static_cast<int64_t>(waiting_.size());
  snapshot.num_pages = pages_.num_pages();
  snapshot.num_pages_used = pages_.num_used();
  snapshot.num_slots = slots_.num_slots();
  snapshot.num_slots_used = slots_.num_used();
  return snapshot;
}

}  // namespace headrace::engine
