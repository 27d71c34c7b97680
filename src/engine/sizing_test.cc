// SPDX-License-Identifier: Apache-2.0
#include "engine/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/support/scale.h"

namespace headrace::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPlenty = int64_t{64} << 30;

// 1 MiB a page, 2 MiB a slot, 1,024 positions (64 pages of 16).
ModelSizes model() {
  return {.max_position_embeddings = 1024, .page_bytes = kMiB, .slot_bytes = 2 * kMiB};
}

std::string message(const EngineOptions& options, int64_t available = kPlenty) {
  const auto sizes = resolve_sizes(options, model(), available);
  return sizes.ok() ? "" : sizes.status().message();
}

TEST(EngineSizingTest, WithPlentyOfMemoryEveryRowCanBeFull) {
  const auto sizes = resolve_sizes({.max_num_seqs = 8}, model(), kPlenty);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(sizes->options.max_model_len, 1024);
  EXPECT_EQ(sizes->options.num_pages, 8 * 64);
  EXPECT_EQ(sizes->num_slots, 8);
  EXPECT_GE(sizes->options.num_threads, 1);
  EXPECT_FALSE(sizes->is_context_cut);
}

TEST(EngineSizingTest, WithLessMemoryPagesAreShared) {
  // 100 pages and the null page, 8 slots and the null slot.
  const auto sizes =
      resolve_sizes({.max_num_seqs = 8, .memory_bytes = (101 + 18) * kMiB}, model(), 0);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(sizes->num_slots, 8);
  EXPECT_EQ(sizes->options.num_pages, 100);
  EXPECT_EQ(sizes->options.max_model_len, 1024);
}

TEST(EngineSizingTest, OneSequenceJustFits) {
  const int64_t needed = (64 + 1 + 2 * 2) * kMiB;
  const auto sizes = resolve_sizes({.max_num_seqs = 8, .memory_bytes = needed}, model(), 0);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(sizes->num_slots, 1);
  EXPECT_EQ(sizes->options.num_pages, 64);
  EXPECT_FALSE(sizes->is_context_cut);
}

TEST(EngineSizingTest, AContextThatNobodyAskedForIsCutToWhatFits) {
  const int64_t memory = (20 + 1 + 2 * 2) * kMiB;
  const auto sizes = resolve_sizes({.max_num_seqs = 8, .memory_bytes = memory}, model(), 0);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_TRUE(sizes->is_context_cut);
  EXPECT_EQ(sizes->options.max_model_len, 20 * 16);
  EXPECT_EQ(sizes->options.num_pages, 20);
}

TEST(EngineSizingTest, AContextThatWasAskedForIsAnErrorThatNamesWhatFits) {
  const int64_t memory = (20 + 1 + 2 * 2) * kMiB;
  const auto sizes =
      resolve_sizes({.max_model_len = 1000, .memory_bytes = memory}, model(), kPlenty);
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(sizes.status().message(),
              AllOf(HasSubstr("1000"), HasSubstr("--max-model-len 320"),
                    HasSubstr("--memory-bytes"), HasSubstr("68.0 MiB"), HasSubstr("25.0 MiB")));
  // What the message says does work.
  EXPECT_TRUE(resolve_sizes({.max_model_len = 320, .memory_bytes = memory}, model(), 0).ok());
  EXPECT_TRUE(
      resolve_sizes({.max_model_len = 1000, .memory_bytes = (63 + 1 + 4) * kMiB}, model(), 0).ok());
}

TEST(EngineSizingTest, NoMemoryAtAllIsAnError) {
  const auto sizes = resolve_sizes({}, model(), 0);
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(sizes.status().message(), HasSubstr("--memory-bytes"));
}

TEST(EngineSizingTest, ThePagesAskedForAreTaken) {
  auto sizes = resolve_sizes({.num_pages = 70}, model(), kPlenty);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->options.num_pages, 70);
  EXPECT_EQ(sizes->options.max_model_len, 1024);

  sizes = resolve_sizes({.num_pages = 10}, model(), kPlenty);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->options.max_model_len, 160);
  EXPECT_TRUE(sizes->is_context_cut);

  EXPECT_THAT(message({.max_model_len = 200, .num_pages = 10}),
              AllOf(HasSubstr("--num-pages 13"), HasSubstr("--max-model-len 160")));
  EXPECT_THAT(message({.num_pages = 100, .memory_bytes = 50 * kMiB}),
              AllOf(HasSubstr("100 pages"), HasSubstr("--num-pages 45")));
  EXPECT_THAT(message({.page_size = 1, .num_pages = 1}), HasSubstr("--num-pages"));
}

TEST(EngineSizingTest, MoreThanTheModelsPositionsIsAnError) {
  EXPECT_THAT(message({.max_model_len = 1025}), AllOf(HasSubstr("1025"), HasSubstr("1024")));
  EXPECT_EQ(message({.max_model_len = 1024}), "");
}

TEST(EngineSizingTest, ValuesOutOfRangeNameTheFlag) {
  EXPECT_THAT(message({.num_threads = -1}), HasSubstr("--threads"));
  EXPECT_THAT(message({.max_model_len = -1}), HasSubstr("--max-model-len"));
  EXPECT_THAT(message({.num_pages = -5}), HasSubstr("--num-pages"));
  EXPECT_THAT(message({.max_num_seqs = 0}), HasSubstr("--max-num-seqs"));
  EXPECT_THAT(message({.max_queued_requests = 0}), HasSubstr("--max-queued-requests"));
  EXPECT_THAT(message({.memory_bytes = -1}), HasSubstr("--memory-bytes"));
  for (const int32_t bad : {0, -16, 2, 7, 24, 1040}) {
    EXPECT_THAT(message({.page_size = bad}), HasSubstr("--page-size")) << bad;
  }
  for (const int32_t good : {1, 8, 16, 48, 1024})
    EXPECT_EQ(message({.page_size = good}), "") << good;
  EXPECT_THAT(message({.max_num_batched_tokens = 63}),
              AllOf(HasSubstr("--max-num-batched-tokens"), HasSubstr("64")));
  EXPECT_THAT(message({.max_num_seqs = 100, .max_num_batched_tokens = 99}), HasSubstr("100"));
}

TEST(EngineSizingTest, AModelWithoutSlotsOrPagesIsSized) {
  const auto no_slots =
      resolve_sizes({.max_num_seqs = 4},
                    {.max_position_embeddings = 64, .page_bytes = kMiB, .slot_bytes = 0}, kPlenty);
  ASSERT_TRUE(no_slots.ok());
  EXPECT_EQ(no_slots->num_slots, 4);
  const auto no_pages =
      resolve_sizes({.max_num_seqs = 4},
                    {.max_position_embeddings = 64, .page_bytes = 0, .slot_bytes = kMiB}, kPlenty);
  ASSERT_TRUE(no_pages.ok());
  EXPECT_EQ(no_pages->options.num_pages, 4 * 4);
}

// Whatever comes out fits into the budget and holds one sequence.
TEST(EngineSizingTest, RandomSizesFit) {
  std::mt19937_64 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int fitted = 0;
  for (int i = 0; i < test::scaled(20000); ++i) {
    EngineOptions options;
    options.page_size = pick(0, 1) == 0 ? 1 : 16;
    options.max_num_seqs = static_cast<int32_t>(pick(1, 64));
    options.memory_bytes = pick(1, 1000) * pick(1, 4000);
    if (pick(0, 2) == 0) options.max_model_len = static_cast<int32_t>(pick(1, 5000));
    if (pick(0, 2) == 0) options.num_pages = static_cast<int32_t>(pick(1, 300));
    const ModelSizes sizes_of_model = {
        .max_position_embeddings = static_cast<int32_t>(pick(2, 5000)),
        .page_bytes = pick(0, 5000),
        .slot_bytes = pick(0, 1) * pick(1, 50000)};
    const auto sizes = resolve_sizes(options, sizes_of_model, 0);
    if (!sizes.ok()) continue;
    ++fitted;
    const EngineOptions& chosen = sizes->options;
    ASSERT_GE(sizes->num_slots, 1);
    ASSERT_LE(sizes->num_slots, options.max_num_seqs);
    ASSERT_GE(int64_t{chosen.num_pages} * chosen.page_size, chosen.max_model_len);
    ASSERT_GE(chosen.max_model_len, 1);
    ASSERT_LE((int64_t{chosen.num_pages} + 1) * sizes_of_model.page_bytes +
                  (int64_t{sizes->num_slots} + 1) * sizes_of_model.slot_bytes,
              options.memory_bytes);
  }
  EXPECT_GT(fitted, test::scaled(20000) / 10);
}

}  // namespace
}  // namespace headrace::engine
