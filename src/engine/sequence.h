// SPDX-License-Identifier: Apache-2.0
// One request inside the engine: its tokens, and where it stands in its life. The life cycle is a
// type: only a running sequence has pages and a slot, so none can be used, or forgotten, elsewhere.
// It knows nothing of other sequences and of pools.
//
//                  admit                 finish
//     Waiting ───────────────► Running ──────────► Finished
//        ▲  │      preempt        │                    ▲
//        │  └─────────────────────┼────────────────────┘
//        └────────────────────────┘     finish (cancelled, failed)
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "headrace/request.h"

namespace headrace::engine {

struct Waiting {};

struct Running {
  int32_t slot = 0;
  std::vector<int32_t> pages;
  int32_t num_computed_tokens = 0;  // in the pages and the slot
};

struct Finished {
  FinishReason reason = FinishReason::kNone;
};

class Sequence {
 public:
  // `context_tokens`: prompt and generated tokens together may not be more. `eos_token_ids` end the
  // sequence unless the request ignores them.
  Sequence(RequestId id, Request request, std::span<const int32_t> eos_token_ids,
           int32_t context_tokens);

  RequestId id() const { return id_; }
  const SamplingParams& sampling() const { return sampling_; }

  // Prompt, then what was generated.
  std::span<const int32_t> tokens() const { return tokens_; }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t num_prompt_tokens() const { return num_prompt_tokens_; }
  // It ends when it has so many.
  int32_t max_total_tokens() const { return max_total_tokens_; }
  int32_t num_generated_tokens() const { return num_tokens() - num_prompt_tokens_; }

  bool is_waiting() const { return std::holds_alternative<Waiting>(state_); }
  bool is_running() const { return std::holds_alternative<Running>(state_); }
  bool is_finished() const { return std::holds_alternative<Finished>(state_); }
  // InternalError unless it is running.
  Running& running();
  const Running& running() const;
  // kNone unless it is finished.
  FinishReason finish_reason() const;

  // InternalError for a transition that the drawing above does not have.
  void admit(int32_t slot);
  // Both return what the sequence held, for the pools. finish() of a waiting one returns nothing.
  Running preempt();
  Running finish(FinishReason reason);

  // Marks the next `count` tokens as computed. Returns how many of them had been computed before,
  // that is before a preemption.
  int32_t advance(int32_t count);
  // Appends a generated token and says whether it is the last one, and why.
  FinishReason append(int32_t token_id);
  bool was_admitted() const { return was_admitted_; }

 private:
  bool is_stop(int32_t token_id) const;

  RequestId id_;
  SamplingParams sampling_;
  std::vector<int32_t> stop_token_ids_;  // of the request and, unless ignored, of the model
  std::vector<int32_t> tokens_;
  int32_t num_prompt_tokens_;
  int32_t max_total_tokens_;
  int32_t most_computed_tokens_ = 0;
  bool was_admitted_ = false;
  std::variant<Waiting, Running, Finished> state_;
};

}  // namespace headrace::engine
