// SPDX-License-Identifier: Apache-2.0
// How the next token is chosen from the logits.
#pragma once

#include <cstdint>

#include "headrace/status.h"

namespace headrace {

struct SamplingParams {
  float temperature = 0.0f;  // 0 = greedy, ties go to the lowest id
  int32_t top_k = 0;         // 0 = all
  float top_p = 1.0f;        // (0, 1]
  // The random draw is a function of (seed, choice_index, output position) and of nothing else.
  uint64_t seed = 0;
  uint32_t choice_index = 0;
};

// Names the first value that is out of range.
Status validate(const SamplingParams& params);

}  // namespace headrace
