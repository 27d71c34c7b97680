// SPDX-License-Identifier: Apache-2.0
// The arrays of small steps, written out by hand. Random steps are in build_property_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "metadata/arena.h"
#include "tests/support/step_builder.h"

namespace headrace::metadata {
namespace {

using test::TestRow;
using test::TestStep;
using ::testing::Each;
using ::testing::ElementsAre;

template <typename T>
std::vector<T> take(const T* array, int64_t count) {
  return std::vector<T>(array, array + count);
}

// A prefill, a decode, a padding, a verify and a prefill row that starts inside a chunk, in a
// bucket of 7 rows and 80 tokens.
std::vector<TestRow> mixed_rows() {
  return {{.query_len = 3},
          {.query_len = 1, .context_len = 16},
          {.query_len = 0},
          {.query_len = 3, .context_len = 30, .num_drafts = 2, .num_accepted = 2},
          {.query_len = 70, .context_len = 60, .flags = 0}};
}

TestStep mixed_step() {
  return TestStep(mixed_rows(), {.page_size = 16,
                                 .max_rows = 8,
                                 .max_tokens = 80,
                                 .padded_rows = 7,
                                 .num_workers = 4,
                                 .split_tokens = 16,
                                 .shuffle_pages = false});
}

TEST(Build, RowsOfAllKinds) {
  TestStep step = mixed_step();
  const StepView& v = step.view();
  constexpr auto kPad = RowKind::kPadding;
  EXPECT_THAT(take(v.kind, 8), ElementsAre(RowKind::kPrefill, RowKind::kDecode, kPad,
                                           RowKind::kVerify, RowKind::kPrefill, kPad, kPad, kPad));
  EXPECT_THAT(take(v.query_len, 8), ElementsAre(3, 1, 0, 3, 70, 0, 0, 0));
  EXPECT_THAT(take(v.context_len, 8), ElementsAre(0, 16, 0, 30, 60, 0, 0, 0));
  EXPECT_THAT(take(v.seq_len, 8), ElementsAre(3, 17, 0, 33, 130, 0, 0, 0));
  EXPECT_THAT(take(v.query_start_i32, 9), ElementsAre(0, 3, 4, 4, 7, 77, 77, 77, 77));
  EXPECT_THAT(take(v.query_start_i64, 9), ElementsAre(0, 3, 4, 4, 7, 77, 77, 77, 77));
  EXPECT_THAT(take(v.pages_used, 8), ElementsAre(1, 2, 0, 3, 9, 0, 0, 0));
  EXPECT_THAT(take(v.page_start, 9), ElementsAre(0, 1, 3, 3, 6, 15, 15, 15, 15));
  EXPECT_THAT(take(v.last_page_len, 8), ElementsAre(3, 1, 0, 1, 2, 0, 0, 0));
  EXPECT_THAT(take(v.initial_slot, 8), ElementsAre(0, 2, 0, 3, 4, 0, 0, 0));
  EXPECT_THAT(take(v.final_slot, 8), ElementsAre(1, 2, 0, 3, 4, 0, 0, 0));
  EXPECT_THAT(take(v.has_initial_state, 8), ElementsAre(0, 1, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(take(v.num_accepted, 8), ElementsAre(0, 0, 0, 2, 0, 0, 0, 0));
  EXPECT_THAT(take(v.decode_rows, 8), ElementsAre(1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(take(v.verify_rows, 8), ElementsAre(3, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(take(v.prefill_rows, 8), ElementsAre(0, 4, -1, -1, -1, -1, -1, -1));
}

TEST(Build, Counts) {
  TestStep step = mixed_step();
  const Counts& c = *step.view().counts;
  EXPECT_EQ(c.num_rows, 7);
  EXPECT_EQ(c.num_tokens, 77);
  EXPECT_EQ(c.num_decode_rows, 1);
  EXPECT_EQ(c.num_verify_rows, 1);
  EXPECT_EQ(c.num_prefill_rows, 2);
  EXPECT_EQ(c.num_padding_rows, 3);
  EXPECT_EQ(c.num_decode_tokens, 1);
  EXPECT_EQ(c.num_verify_tokens, 3);
  EXPECT_EQ(c.num_prefill_tokens, 73);
  EXPECT_EQ(c.num_chunks, 4);
  EXPECT_EQ(c.num_logit_tokens, 5);
  EXPECT_EQ(c.num_pages_used, 15);
  EXPECT_EQ(c.num_checkpoints, 0);
  EXPECT_EQ(c.num_split_units, 5);
  EXPECT_EQ(c.num_partials, 4);
}

TEST(Build, TokensChunksAndLogits) {
  TestStep step = mixed_step();
  const StepView& v = step.view();
  EXPECT_THAT(take(v.token_row, 8), ElementsAre(0, 0, 0, 1, 3, 3, 3, 4));
  EXPECT_THAT(take(v.token_row + 76, 4), ElementsAre(4, -1, -1, -1));
  EXPECT_THAT(take(v.token_position, 8), ElementsAre(0, 1, 2, 16, 30, 31, 32, 60));
  EXPECT_THAT(take(v.token_position + 76, 4), ElementsAre(129, 0, 0, 0));
  // Pages in row order: 1 | 2 3 | | 4 5 6 | 7 … 15.
  EXPECT_THAT(take(v.slot_mapping, 8),
              ElementsAre(16, 17, 18, 3 * 16, 5 * 16 + 14, 5 * 16 + 15, 6 * 16, 10 * 16 + 12));
  EXPECT_THAT(take(v.slot_mapping + 76, 4), ElementsAre(15 * 16 + 1, -1, -1, -1));
  // Grouped: the decode token 3, the verify tokens 4 5 6, then 0 1 2 7 … 76.
  EXPECT_THAT(take(v.token_permutation, 9), ElementsAre(3, 4, 5, 6, 0, 1, 2, 7, 8));
  EXPECT_THAT(take(v.token_inverse, 9), ElementsAre(4, 5, 6, 0, 1, 2, 3, 7, 8));
  EXPECT_THAT(take(v.token_permutation + 77, 3), Each(-1));
  EXPECT_THAT(take(v.token_inverse + 77, 3), Each(-1));

  EXPECT_THAT(take(v.chunk_start, 9), ElementsAre(0, 1, 1, 1, 1, 4, 4, 4, 4));
  EXPECT_THAT(take(v.chunk_row, 5), ElementsAre(0, 4, 4, 4, -1));
  EXPECT_THAT(take(v.chunk_token, 5), ElementsAre(0, 7, 11, 75, 0));
  EXPECT_THAT(take(v.chunk_len, 5), ElementsAre(3, 4, 64, 2, 0));

  EXPECT_THAT(take(v.logit_start, 9), ElementsAre(0, 1, 2, 2, 5, 5, 5, 5, 5));
  EXPECT_THAT(take(v.logit_tokens, 6), ElementsAre(2, 3, 4, 5, 6, -1));
}

TEST(Build, PageTableHasNullsPastTheUsedPages) {
  TestStep step({{.query_len = 1, .context_len = 16, .extra_pages = 3}, {.query_len = 0}},
                {.max_pages_per_row = 8, .shuffle_pages = false});
  EXPECT_THAT(take(step.view().page_table, 8), ElementsAre(1, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(take(step.view().page_table + 8, 8), Each(0));
}

TEST(Build, ShorterStepInTheSameArenaLeavesNothingOfTheLongerOne) {
  TestStep step = mixed_step();
  step.set_rows({{.query_len = 1, .context_len = 1}});
  step.rebuild();
  const StepView& v = step.view();
  EXPECT_THAT(take(v.page_table, v.limits.max_pages_per_row),
              ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(take(v.page_table + v.limits.max_pages_per_row, 7 * v.limits.max_pages_per_row),
              Each(0));
  EXPECT_THAT(take(v.token_row, 80), testing::Contains(0).Times(1));
  EXPECT_EQ(v.counts->num_rows, 1);
  EXPECT_EQ(v.counts->num_tokens, 1);
}

TEST(Build, NoRowsAtAll) {
  TestStep step({}, {.max_rows = 3, .max_tokens = 4, .padded_rows = 3});
  const StepView& v = step.view();
  EXPECT_EQ(v.counts->num_rows, 3);
  EXPECT_EQ(v.counts->num_padding_rows, 3);
  EXPECT_EQ(v.counts->num_tokens, 0);
  EXPECT_EQ(v.counts->num_partials, 0);
  EXPECT_THAT(take(v.query_start_i32, 4), Each(0));
  EXPECT_THAT(take(v.slot_mapping, 4), Each(kNoToken));
}

TEST(Build, IsOneNodeOfAGraphAndReadsTheArenaAtEachLaunch) {
  TestStep step = mixed_step();
  step.stream().begin_capture();
  build(step.stream(), step.arena());
  const CpuGraph graph = step.stream().end_capture();
  EXPECT_EQ(graph.num_nodes(), 1u);
  for (int32_t len : {5, 1, 33}) {
    step.set_rows({{.query_len = len}, {.query_len = 1, .context_len = len}});
    test::poison_derived(step.arena());
    step.stream().launch(graph);
    EXPECT_EQ(step.view().counts->num_tokens, len + 1);
    EXPECT_EQ(step.view().seq_len[1], len + 1);
  }
}

}  // namespace
}  // namespace headrace::metadata
