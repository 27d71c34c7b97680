// SPDX-License-Identifier: Apache-2.0
#include "cli/statistics.h"

#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

TEST(TokensPerSecond, LeavesTheFirstTokenOut) {
  EXPECT_DOUBLE_EQ(tokens_per_second({10, 11, {0, 1.0, 2.0}, FinishReason::kLength}), 10.0);
  EXPECT_DOUBLE_EQ(tokens_per_second({10, 1, {0, 0.5, 0.5}, FinishReason::kLength}), 2.0);
  EXPECT_EQ(tokens_per_second({10, 0, {0, 0, 1.0}, FinishReason::kCancelled}), 0.0);
  EXPECT_EQ(tokens_per_second({10, 2, {0, 1.0, 1.0}, FinishReason::kLength}), 0.0);
}

TEST(StatisticsLine, SaysWhatHappened) {
  EXPECT_EQ(statistics_line({12, 101, {0.001, 0.0354, 0.5354}, FinishReason::kLength}),
            "12 prompt tokens, 101 generated tokens (length), first token after 35 ms, "
            "200.0 tokens/s");
  EXPECT_EQ(statistics_line({1, 1, {0, 0.004, 0.004}, FinishReason::kStop}),
            "1 prompt token, 1 generated token (stop), first token after 4.00 ms, 250.0 tokens/s");
  EXPECT_EQ(statistics_line({3, 3, {0, 1.5, 2.5}, FinishReason::kCancelled}),
            "3 prompt tokens, 3 generated tokens (cancelled), first token after 1.50 s, "
            "2.0 tokens/s");
  EXPECT_EQ(statistics_line({3, 0, {0, 0, 1}, FinishReason::kCancelled}),
            "3 prompt tokens, 0 generated tokens (cancelled), 0.0 tokens/s");
}

}  // namespace
}  // namespace headrace::cli
