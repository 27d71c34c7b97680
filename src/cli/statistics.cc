// SPDX-License-Identifier: Apache-2.0
#include "cli/statistics.h"

#include <fmt/core.h>

namespace headrace::cli {
namespace {

std::string duration(double seconds) {
  if (seconds < 0.01) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string count(int32_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

double tokens_per_second(const GenerationStatistics& statistics) {
  const int32_t tokens = statistics.num_generated_tokens;
  if (tokens <= 0) return 0;
  const RequestTimings& timings = statistics.timings;
  const bool single = tokens == 1;
  const double seconds = single ? timings.total_s : timings.total_s - timings.first_token_s;
  // A clock too coarse for a tiny model must not make the rate infinite.
  return seconds > 0 ? (single ? 1 : tokens - 1) / seconds : 0;
}

std::string statistics_line(const GenerationStatistics& statistics) {
  std::string line = count(statistics.num_prompt_tokens, "prompt token") + ", " +
                     count(statistics.num_generated_tokens, "generated token");
  if (statistics.finish != FinishReason::kNone) {
    line += fmt::format(" ({})", finish_reason_name(statistics.finish));
  }
  if (statistics.num_generated_tokens > 0) {
    line += fmt::format(", first token after {}", duration(statistics.timings.first_token_s));
  }
  return line + fmt::format(", {:.1f} tokens/s", tokens_per_second(statistics));
}

}  // namespace headrace::cli
