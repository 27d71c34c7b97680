// SPDX-License-Identifier: Apache-2.0
#include "cli/nearest.h"

#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("prompt", "prompt"), 0);
  EXPECT_EQ(edit_distance("promt", "prompt"), 1);
  EXPECT_EQ(edit_distance("pormpt", "prompt"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, FindsTyposAndBeginnings) {
  const std::vector<std::string_view> options = {"--model",  "--max-model-len", "--max-tokens",
                                                 "--prompt", "--prompt-file",   "--temperature",
                                                 "--top-k",  "--top-p",         "--chat"};
  EXPECT_EQ(nearest("--promt", options), "--prompt");
  EXPECT_EQ(nearest("-prompt", options), "--prompt");
  EXPECT_EQ(nearest("--max-token", options), "--max-tokens");
  EXPECT_EQ(nearest("--max_tokens", options), "--max-tokens");
  EXPECT_EQ(nearest("--temp", options), "--temperature");
  EXPECT_EQ(nearest("--topk", options), "--top-k");
  EXPECT_EQ(nearest("--caht", options), "--chat");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string_view> options = {"--model", "--prompt", "--top-k"};
  EXPECT_EQ(nearest("--frequency-penalty", options), "");
  EXPECT_EQ(nearest("--", options), "");
  EXPECT_EQ(nearest("--xyz", options), "");
  EXPECT_EQ(nearest("--model", {}), "");
}

}  // namespace
}  // namespace headrace::cli
