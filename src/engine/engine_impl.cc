// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_impl.h"

#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/mailbox.h"
#include "engine/metrics_board.h"

namespace headrace::engine {
namespace {

SchedulerLimits scheduler_limits(const EngineOptions& options) {
  return {.max_rows = options.max_num_seqs,
          .max_tokens = options.max_num_batched_tokens,
          .page_size = options.page_size};
}

RunnerOptions runner_options(const EngineParts& parts) {
  const EngineOptions& options = parts.options;
  return {.max_rows = options.max_num_seqs,
          .max_tokens = options.max_num_batched_tokens,
          .max_model_len = options.max_model_len,
          .page_size = options.page_size,
          .num_pages = options.num_pages,
          .num_slots = parts.num_slots,
          .kv_dtype = options.dtype.value_or(DType::kF32),
          .num_threads = options.num_threads};
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineParts parts, std::unique_ptr<Runner> runner)
      : parts_(std::move(parts)),
        runner_(std::move(runner)),
        loop_(*runner_, scheduler_limits(parts_.options), parts_.model->config().vocab_size,
              parts_.options.num_pages, parts_.num_slots,
              {.left_queue = [this] { num_queued_.fetch_sub(1, std::memory_order_relaxed); },
               .publish = [this](const MetricsSnapshot& snapshot) { board_.store(snapshot); }}) {
    board_.store(loop_.metrics());
    if (parts_.before_start) parts_.before_start(loop_, *runner_);
    thread_ = std::thread([this] { run(); });
  }

  ~EngineImpl() override {
    mailbox_.post(StopMail{});
    thread_.join();
  }

  Result<RequestId> submit(Request request, UpdateCallback callback) override {
    HEADRACE_RETURN_IF_ERROR(check(request));
    const int32_t most = parts_.options.max_queued_requests;
    if (num_queued_.fetch_add(1, std::memory_order_relaxed) >= most) {
      num_queued_.fetch_sub(1, std::memory_order_relaxed);
      num_rejected_.fetch_add(1, std::memory_order_relaxed);
      return resource_exhausted(
          fmt::format("{} requests are waiting already: try again later, or raise "
                      "max_queued_requests (--max-queued-requests)",
                      most));
    }
    try {
      return accept(std::move(request), std::move(callback));
    } catch (const std::bad_alloc&) {
      num_queued_.fetch_sub(1, std::memory_order_relaxed);
      return resource_exhausted("no memory for another request: try again when some have ended");
    }
  }

  bool cancel(RequestId id) override {
    {
      std::lock_guard lock(live_mutex_);
      if (live_.count(id) == 0) return false;
    }
    mailbox_.post(CancelMail{id});
    return true;
  }

  void wait_idle() override {
    std::unique_lock lock(live_mutex_);
    idle_.wait(lock, [this] { return num_unfinished_ == 0; });
  }

  MetricsSnapshot metrics() const override {
    MetricsSnapshot snapshot = board_.load();
    snapshot.requests_rejected = num_rejected_.load(std::memory_order_relaxed);
    return snapshot;
  }
  const ModelInfo& model_info() const override { return parts_.model_info; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return parts_.tokenizer; }
  Result<std::shared_ptr<const ChatTemplate>> chat_template() const override {
    return parts_.chat_template;
  }
  const EngineOptions& resolved_options() const override { return parts_.options; }

 private:
  RequestId accept(Request request, UpdateCallback callback) {
    const RequestId id = next_id_.fetch_add(1, std::memory_order_relaxed);
    auto live = std::make_unique<LiveRequest>(
        Sequence(id, std::move(request), parts_.model->config().eos_token_ids,
                 parts_.options.max_model_len),
        [this, callback = std::move(callback), is_broken = false](
            const RequestUpdate& update) mutable { hear(update, callback, is_broken); },
        parts_.tokenizer);
    {
      std::lock_guard lock(live_mutex_);
      live_.insert(id);
      ++num_unfinished_;
    }
    mailbox_.post(std::move(live));
    return id;
  }

  Status check(const Request& request) const {
    HEADRACE_RETURN_IF_ERROR(validate(request.sampling));
    const auto num_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
    const int32_t context = parts_.options.max_model_len;
    const int32_t vocab = parts_.model->config().vocab_size;
    if (num_tokens == 0) {
      return invalid_argument("the prompt is empty: give at least one token");
    }
    if (num_tokens >= context) {
      return invalid_argument(fmt::format(
          "the prompt has {} tokens and leaves no room to generate in a context of {}: shorten it "
          "to at most {} tokens, or raise max_model_len (--max-model-len) to at least {}{}",
          num_tokens, context, context - 1, num_tokens + 1, model_limit_hint(num_tokens + 1)));
    }
    for (const int32_t id : request.prompt_token_ids) {
      if (id < 0 || id >= vocab) {
        return invalid_argument(fmt::format(
            "prompt token {} is not in the model's vocabulary of {} (ids 0 to {}): encode the "
            "prompt with this model's tokenizer",
            id, vocab, vocab - 1));
      }
    }
    if (request.max_tokens < 0) {
      return invalid_argument(fmt::format(
          "max_tokens (--max-tokens) is {}: use a positive number, or 0 for as many as the context "
          "holds",
          request.max_tokens));
    }
    return {};
  }

  std::string model_limit_hint(int64_t wanted) const {
    const int32_t most = parts_.model->config().max_position_embeddings;
    if (most <= 0 || wanted <= most) return "";
    return fmt::format(" (more than the {} positions of this model)", most);
  }

  // Called by the engine thread. A callback that throws is never called again and its request is
  // cancelled: no exception may reach the thread.
  void hear(const RequestUpdate& update, const UpdateCallback& callback, bool& is_broken) {
    const bool is_last = update.finish != FinishReason::kNone;
    if (is_last) {
      std::lock_guard lock(live_mutex_);
      live_.erase(update.id);
    }
    if (callback && !is_broken) {
      try {
        callback(update);
      } catch (const std::exception& error) {
        is_broken = true;
        log(LogLevel::kError, "the callback of request {} threw: {}", update.id, error.what());
      } catch (...) {
        is_broken = true;
        log(LogLevel::kError, "the callback of request {} threw", update.id);
      }
      if (is_broken) cancel(update.id);
    }
    if (is_last) {
      std::lock_guard lock(live_mutex_);
      --num_unfinished_;
      if (num_unfinished_ == 0) idle_.notify_all();
    }
  }

  void run() {
    std::vector<Mail> mail;
    bool stopping = false;
    while (!stopping) {
      mailbox_.take(mail, !loop_.has_work());
      for (Mail& item : mail) {
        if (auto* request = std::get_if<std::unique_ptr<LiveRequest>>(&item)) {
          loop_.add(std::move(*request));
        } else if (const auto* cancel = std::get_if<CancelMail>(&item)) {
          loop_.cancel(cancel->id);
        } else {
          stopping = true;
        }
      }
      mail.clear();
      if (!stopping && loop_.has_work()) loop_.step();
    }
    loop_.cancel_all();
  }

  EngineParts parts_;
  std::unique_ptr<Runner> runner_;
  EngineLoop loop_;  // used by the thread alone
  Mailbox mailbox_;
  MetricsBoard board_;
  std::atomic<RequestId> next_id_{1};
  std::atomic<int32_t> num_queued_{0};  // submitted, never admitted
  std::atomic<int64_t> num_rejected_{0};

  mutable std::mutex live_mutex_;  // taken when a request comes or goes, not in a steady step
  std::condition_variable idle_;
  std::unordered_set<RequestId> live_;  // their last update is still to come
  int64_t num_unfinished_ = 0;          // the same, until the last callback has returned

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Engine>> start_engine(EngineParts parts) {
  HEADRACE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner,
                            Runner::create(*parts.model, runner_options(parts)));
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(std::move(parts), std::move(runner)));
}

}  // namespace headrace::engine
