// SPDX-License-Identifier: Apache-2.0
// What a caller submits to the engine and what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headrace/sampling.h"
#include "headrace/status.h"

namespace headrace {

using RequestId = uint64_t;

struct Request {
  std::vector<int32_t> prompt_token_ids = {};  // at least one
  SamplingParams sampling = {};
  int32_t max_tokens = 16;                   // generated tokens; 0 = as many as the context holds
  std::vector<int32_t> stop_token_ids = {};  // besides the model's end-of-sequence ids
  bool ignore_eos = false;
};

enum class FinishReason {
  kNone,       // still running
  kStop,       // an end-of-sequence or stop id
  kLength,     // max_tokens or the end of the context
  kCancelled,  // cancel() was called
  kError,      // see RequestUpdate::status
};
// "stop", "length", "cancelled", "error", or "" for kNone.
const char* finish_reason_name(FinishReason reason);

// Seconds on the engine's monotonic clock.
struct RequestTimings {
  double queued_s = 0;       // submit to first scheduled
  double first_token_s = 0;  // submit to first generated token
  double total_s = 0;        // submit to now
};

// One call a step and request that produced something; the last one has finish != kNone.
struct RequestUpdate {
  RequestId id = 0;
  std::vector<int32_t> token_ids;  // new ones; the stop id itself is included
  std::string text;  // new text, complete code points only; the stop id's text is left out
  FinishReason finish = FinishReason::kNone;
  Status status;
  int32_t num_prompt_tokens = 0;
  int32_t num_generated_tokens = 0;  // so far
  RequestTimings timings;
};

// Called on the engine thread: it must not block and must not call back into the engine, except
// for Engine::cancel.
using UpdateCallback = std::function<void(const RequestUpdate&)>;

}  // namespace headrace
