// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace headrace::engine {

Sequence::Sequence(RequestId id, Request request, std::span<const int32_t> eos_token_ids,
                   int32_t context_tokens)
    : id_(id),
      sampling_(request.sampling),
      stop_token_ids_(std::move(request.stop_token_ids)),
      tokens_(std::move(request.prompt_token_ids)),
      num_prompt_tokens_(static_cast<int32_t>(tokens_.size())),
      max_total_tokens_(context_tokens) {
  if (!request.ignore_eos) {
    stop_token_ids_.insert(stop_token_ids_.end(), eos_token_ids.begin(), eos_token_ids.end());
  }
  if (request.max_tokens > 0 && request.max_tokens < context_tokens - num_prompt_tokens_) {
    max_total_tokens_ = num_prompt_tokens_ + request.max_tokens;
  }
  // All room at once: appending in a step allocates nothing.
  tokens_.reserve(static_cast<size_t>(max_total_tokens_));
}

Running& Sequence::running() {
  Running* state = std::get_if<Running>(&state_);
  HEADRACE_CHECK(state != nullptr, "request " + std::to_string(id_) + " does not run");
  return *state;
}

const Running& Sequence::running() const { return const_cast<Sequence*>(this)->running(); }

FinishReason Sequence::finish_reason() const {
  const Finished* state = std::get_if<Finished>(&state_);
  return state == nullptr ? FinishReason::kNone : state->reason;
}

void Sequence::admit(int32_t slot) {
  HEADRACE_CHECK(is_waiting(), "request " + std::to_string(id_) + " does not wait");
  was_admitted_ = true;
  Running state;
  state.slot = slot;
  state_ = std::move(state);
}

Running Sequence::preempt() {
  Running held = std::move(running());
  state_ = Waiting{};
  return held;
}

Running Sequence::finish(FinishReason reason) {
  HEADRACE_CHECK(!is_finished(), "request " + std::to_string(id_) + " finishes twice");
  Running held;
  if (is_running()) held = std::move(running());
  state_ = Finished{reason};
  return held;
}

int32_t Sequence::advance(int32_t count) {
  Running& state = running();
  const int32_t before = state.num_computed_tokens;
  state.num_computed_tokens += count;
  HEADRACE_CHECK(count > 0 && state.num_computed_tokens <= num_tokens(),
                 "request " + std::to_string(id_) + " computes more tokens than it has");
  const int32_t again = std::min(state.num_computed_tokens, most_computed_tokens_) - before;
  most_computed_tokens_ = std::max(most_computed_tokens_, state.num_computed_tokens);
  return std::max(again, 0);
}

FinishReason Sequence::append(int32_t token_id) {
  HEADRACE_CHECK(num_tokens() < max_total_tokens_,
                 "request " + std::to_string(id_) + " generates more than it may");
  tokens_.push_back(token_id);
  if (is_stop(token_id)) return FinishReason::kStop;
  return num_tokens() == max_total_tokens_ ? FinishReason::kLength : FinishReason::kNone;
}

bool Sequence::is_stop(int32_t token_id) const {
  return std::find(stop_token_ids_.begin(), stop_token_ids_.end(), token_id) !=
         stop_token_ids_.end();
}

}  // namespace headrace::engine
