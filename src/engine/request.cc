// SPDX-License-Identifier: Apache-2.0
// Names and checks of what a caller submits.
#include "headrace/request.h"

#include <fmt/core.h>

#include <cmath>

#include "headrace/sampling.h"

namespace headrace {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

Status validate(const SamplingParams& params) {
  if (!std::isfinite(params.temperature) || params.temperature < 0.0f) {
    return invalid_argument(
        fmt::format("temperature (--temperature) is {}: use 0 for greedy or a positive number",
                    params.temperature));
  }
  if (params.top_k < 0) {
    return invalid_argument(fmt::format(
        "top_k (--top-k) is {}: use a positive number, or 0 for all tokens", params.top_k));
  }
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return invalid_argument(
        fmt::format("top_p (--top-p) is {}: use a number above 0 and at most 1", params.top_p));
  }
  return {};
}

}  // namespace headrace
