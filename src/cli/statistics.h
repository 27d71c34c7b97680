// SPDX-License-Identifier: Apache-2.0
// The line that `generate` closes with, and the figures in it.
#pragma once

#include <string>

#include "headrace/request.h"

namespace headrace::cli {

struct GenerationStatistics {
  int32_t num_prompt_tokens = 0;
  int32_t num_generated_tokens = 0;
  RequestTimings timings;
  FinishReason finish = FinishReason::kNone;
};

// Tokens after the first by the time after the first, so that neither the prompt nor the queue
// counts; of a single token, one by the whole time; 0 without tokens.
double tokens_per_second(const GenerationStatistics& statistics);

// "12 prompt tokens, 128 generated tokens (length), first token after 35 ms, 214.3 tokens/s".
std::string statistics_line(const GenerationStatistics& statistics);

}  // namespace headrace::cli
