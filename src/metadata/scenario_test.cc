// SPDX-License-Identifier: Apache-2.0
// Steps that broke other engines, or that their suites guard, by what they are about. Each is also
// compared with the naive reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "metadata/arena.h"
#include "metadata/index.h"
#include "tests/support/step_builder.h"
#include "tests/support/step_reference.h"

namespace headrace::metadata {
namespace {

using test::TestRow;
using test::TestStep;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr RowKind kPad = RowKind::kPadding;
constexpr RowKind kDec = RowKind::kDecode;
constexpr RowKind kVer = RowKind::kVerify;
constexpr RowKind kPre = RowKind::kPrefill;

template <typename T>
std::vector<T> take(const T* array, int64_t count) {
  return std::vector<T>(array, array + count);
}

// A row by its whole length and its new tokens, as such suites write them.
TestRow row(int32_t seq_len, int32_t query_len, int32_t num_drafts = 0) {
  return {.query_len = query_len, .context_len = seq_len - query_len, .num_drafts = num_drafts};
}

std::vector<RowKind> kinds(const TestStep& step) {
  return take(step.view().kind, step.view().limits.max_rows);
}

TEST(Scenario, BatchesOfAttentionSuites) {
  struct Batch {
    std::vector<int32_t> seq_lens;
    std::vector<int32_t> query_lens;
  };
  const std::vector<int32_t> ones(32, 1);
  const std::vector<Batch> batches = {
      {{32, 40}, {1, 1}},
      {{32, 40}, {8, 8}},
      {{32, 40, 48, 56}, {1, 1, 5, 5}},
      {{128, 256, 512, 1024, 128, 256, 512, 1024}, {1, 1, 1, 1, 1, 1, 1, 1}},
      {{256, 512, 1024, 2048}, {16, 16, 16, 16}},
      {{512, 1024, 2048, 512, 1024, 2048}, {1, 1, 1, 7, 7, 7}},
      {std::vector<int32_t>(32, 2048), ones},
      {std::vector<int32_t>(8, 4096), std::vector<int32_t>(8, 32)},
      {{1024, 2048, 4096, 1024, 2048, 4096}, {1, 1, 1, 32, 32, 32}},
      {{1024}, {1}},
      {{1024}, {64}},
      {{54, 97, 512, 2048, 16384}, {1, 1, 1, 1, 1}},
      {{54, 97, 577, 2048}, {17, 37, 577, 127}},
      {{1, 63, 129, 511, 1024, 1537, 2048, 2879}, {1, 63, 129, 511, 1024, 1537, 2048, 2879}},
  };
  for (int32_t page_size : {1, 8, 16, 64, 256}) {
    for (const Batch& batch : batches) {
      std::vector<TestRow> rows;
      for (size_t i = 0; i < batch.seq_lens.size(); ++i) {
        rows.push_back(row(batch.seq_lens[i], batch.query_lens[i]));
      }
      TestStep step(rows, {.page_size = page_size, .num_workers = 132});
      EXPECT_EQ(test::step_mismatch(step.arena()), "") << "page size " << page_size;
    }
  }
}

TEST(Scenario, RowsOfEachKindInAnyOrder) {
  // Draft counts as the scheduler has them: none, none, two, none …
  TestStep step({row(65, 20), row(50, 1), row(53, 3, 2), row(0, 0), row(30, 3, 2), row(20, 20)});
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
  EXPECT_THAT(kinds(step), ElementsAre(kPre, kDec, kVer, kPad, kVer, kPre));
  EXPECT_EQ(step.view().counts->num_prefill_tokens, 40);
  EXPECT_EQ(step.view().counts->num_verify_tokens, 6);
}

TEST(Scenario, DecodesBesideVerifyRowsStayDecodes) {
  TestStep step({row(40, 1), row(50, 3, 2), row(30, 1), row(20, 1)});
  EXPECT_THAT(kinds(step), ElementsAre(kDec, kVer, kDec, kDec));
  EXPECT_EQ(step.view().counts->num_prefill_rows, 0);
  // Gates and qkv are permuted alike: the decode tokens first, then the verify window.
  EXPECT_THAT(take(step.view().token_permutation, 6), ElementsAre(0, 4, 5, 1, 2, 3));
  EXPECT_THAT(take(step.view().token_inverse, 6), ElementsAre(0, 3, 4, 5, 1, 2));
}

TEST(Scenario, TwoVerifyRowsOfThreeTokens) {
  TestStep step({row(50, 3, 2), row(30, 3, 2)});
  EXPECT_THAT(kinds(step), ElementsAre(kVer, kVer));
  EXPECT_THAT(take(step.view().verify_rows, 2), ElementsAre(0, 1));
  EXPECT_EQ(step.view().counts->num_chunks, 0);
  EXPECT_EQ(step.view().counts->num_logit_tokens, 6);
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
}

// Pages and slots are not cleaned: taken for a decode, a fresh one-token prompt would read what the
// last tenant of its slot left.
TEST(Scenario, FreshPromptsOfOneAndTwoTokensArePrefillWithoutState) {
  TestStep step({row(1, 1), row(2, 2), row(2, 1), row(100, 1)});
  const StepView& v = step.view();
  EXPECT_THAT(kinds(step), ElementsAre(kPre, kPre, kDec, kDec));
  EXPECT_THAT(take(v.has_initial_state, 4), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(v.initial_slot[0], kNullSlot);
  EXPECT_NE(v.final_slot[0], kNullSlot);
  EXPECT_THAT(take(v.prefill_rows, 2), ElementsAre(0, 1));
  EXPECT_THAT(take(v.chunk_len, 2), ElementsAre(1, 2));
}

TEST(Scenario, APromptThatGoesOnHasItsState) {
  TestStep step({row(100, 36), row(64, 64)}, {.page_size = 64});
  const StepView& v = step.view();
  EXPECT_THAT(kinds(step), ElementsAre(kPre, kPre));
  EXPECT_THAT(take(v.has_initial_state, 2), ElementsAre(1, 0));
  EXPECT_THAT(take(v.chunk_start, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(take(v.chunk_len, 2), ElementsAre(36, 64));
}

TEST(Scenario, ARowWithoutDraftsAfterAVerifyStepKeepsItsAcceptedCount) {
  TestRow no_drafts = row(50, 1);
  no_drafts.num_accepted = 3;
  TestRow again = row(60, 4, 3);
  again.num_accepted = 1;
  TestRow prompt = row(70, 20);
  prompt.num_accepted = 2;
  TestStep step({no_drafts, {}, again, prompt});
  EXPECT_THAT(kinds(step), ElementsAre(kDec, kPad, kVer, kPre));
  EXPECT_THAT(take(step.view().num_accepted, 4), ElementsAre(3, 0, 1, 2));
}

// A row that ended still stands in the batch with all its old fields.
TEST(Scenario, AZeroLengthRowWithStaleFieldsIsPadding) {
  TestStep step({row(50, 1), row(40, 1)}, {.padded_rows = 4, .poison = false});
  Row& ended = step.arena().input().rows[0];
  ended.query_len = 0;
  ASSERT_TRUE(check_rows(step.arena()).ok());
  step.rebuild();
  const StepView& v = step.view();
  EXPECT_THAT(kinds(step), ElementsAre(kPad, kDec, kPad, kPad));
  EXPECT_EQ(v.seq_len[0], 0);
  EXPECT_EQ(v.final_slot[0], kNullSlot);
  EXPECT_EQ(v.page_table[0], kNullPage);
  EXPECT_EQ(v.split_unit_start[1], 0);
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
}

TEST(Scenario, AllRowsArePadding) {
  TestStep step({{}, {}, {}}, {.max_tokens = 8, .padded_rows = 5});
  const StepView& v = step.view();
  EXPECT_EQ(v.counts->num_padding_rows, 5);
  EXPECT_THAT(take(v.slot_mapping, 8), Each(kNoToken));
  EXPECT_THAT(take(v.initial_slot, 5), Each(kNullSlot));
  EXPECT_EQ(v.counts->num_partials, 0);
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
}

// Counting tokens where rows are meant is right only while every row has one token.
TEST(Scenario, PaddingCountsRowsForRowArraysAndTokensForTokenArrays) {
  for (auto [used, bucket] : {std::pair{1, 4}, {3, 8}, {4, 4}}) {
    TestStep step(std::vector<TestRow>(static_cast<size_t>(used), row(50, 4, 3)),
                  {.max_rows = 8, .max_tokens = 32, .padded_rows = bucket});
    const StepView& v = step.view();
    EXPECT_EQ(v.counts->num_rows, bucket);
    EXPECT_EQ(v.counts->num_padding_rows, bucket - used);
    EXPECT_EQ(v.counts->num_tokens, 4 * used);
    EXPECT_THAT(take(v.query_len + used, 8 - used), Each(0));
    EXPECT_THAT(take(v.token_row + 4 * used, 32 - 4 * used), Each(-1));
    EXPECT_EQ(v.token_row[4 * used - 1], used - 1);
    EXPECT_THAT(take(v.num_accepted + used, 8 - used), Each(0));
  }
}

TEST(Scenario, QueryStartsRepeatPastTheRowsInUse) {
  TestStep step({row(9, 2), row(9, 1)}, {.max_rows = 6, .padded_rows = 4});
  EXPECT_THAT(take(step.view().query_start_i32, 7), ElementsAre(0, 2, 3, 3, 3, 3, 3));
  EXPECT_THAT(take(step.view().query_start_i64, 7), ElementsAre(0, 2, 3, 3, 3, 3, 3));
  EXPECT_EQ(step.view().counts->num_rows, 4);
}

TEST(Scenario, UnevenVerifyRows) {
  for (const auto& lens : {std::vector<int32_t>{4, 0}, {4, 1}, {3, 4}, {2, 2, 2, 0}}) {
    std::vector<TestRow> rows;
    for (int32_t len : lens) rows.push_back(len == 0 ? TestRow{} : row(40, len, len - 1));
    TestStep step(rows);
    EXPECT_EQ(test::step_mismatch(step.arena()), "");
    EXPECT_EQ(step.view().counts->num_tokens, std::accumulate(lens.begin(), lens.end(), 0));
  }
}

// One graph, captured with one page a row; what was planned at capture must not linger.
TEST(Scenario, ReplaysWithOtherLengths) {
  TestStep step(std::vector<TestRow>(4, row(129, 3, 2)),
                {.max_tokens = 140, .max_pages_per_row = 40, .num_workers = 16});
  step.stream().begin_capture();
  build(step.stream(), step.arena());
  const CpuGraph graph = step.stream().end_capture();
  const std::vector<std::vector<TestRow>> replays = {
      {row(33, 3, 2), row(17, 3, 2), row(65, 3, 2), row(129, 3, 2)},
      {row(3, 2, 1), row(128, 3, 2), row(64, 3, 2), row(100, 3, 2)},
      {row(64, 64), row(64, 64)},
      {row(63, 63), row(65, 65)},
      {row(1, 1)},
      {row(640, 1), {}, row(640, 16, 15), row(640, 123)},
      {},
      {row(16, 1), row(32, 1), row(48, 1), row(640, 1)},
  };
  for (const auto& rows : replays) {
    step.set_rows(rows, 4);
    test::poison_derived(step.arena());
    step.stream().launch(graph);
    EXPECT_EQ(test::step_mismatch(step.arena()), "");
  }
}

TEST(Scenario, ARowThatFillsItsPageTable) {
  for (int32_t seq_len : {127, 128}) {
    TestStep step({row(seq_len, 1), row(128, 128)}, {.page_size = 16, .max_pages_per_row = 8});
    EXPECT_EQ(step.view().pages_used[0], 8);
    EXPECT_EQ(step.view().last_page_len[0], seq_len == 128 ? 16 : 15);
    EXPECT_EQ(test::step_mismatch(step.arena()), "");
  }
}

TEST(Scenario, PagesPastThe32BitTokenRange) {
  std::vector<int32_t> pages = {INT32_MAX - 1, 1 << 22};
  TestRow far = row(1025, 2);
  far.pages = pages;
  TestStep step({far}, {.page_size = 1024, .shuffle_pages = false});
  EXPECT_THAT(take(step.view().slot_mapping, 2),
              ElementsAre(int64_t{INT32_MAX - 1} * 1024 + 1023, int64_t{1} << 32));
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
}

TEST(Scenario, TwoRowsMaySharePagesOfTheirContext) {
  TestRow first = row(33, 1);
  first.pages = {5, 6, 7};
  TestRow second = row(34, 2);
  second.pages = {5, 6, 8};
  TestStep step({first, second});
  EXPECT_THAT(take(step.view().slot_mapping, 3), ElementsAre(7 * 16, 8 * 16, 8 * 16 + 1));
}

TEST(Scenario, CheckpointsAreHandedOnWithTheirCount) {
  TestStep step({row(200, 150), row(64, 64)},
                {.checkpoints = {{0, 9, 64}, {1, 8, 64}, {0, 7, 192}}});
  EXPECT_EQ(step.view().counts->num_checkpoints, 3);
  EXPECT_EQ(step.view().checkpoints[2].position, 192);
  EXPECT_EQ(step.num_slots(), 10);
  step.set_rows({row(9, 9)});
  step.rebuild();
  EXPECT_EQ(step.view().counts->num_checkpoints, 0);
}

TEST(Scenario, OnlyEmittingRowsHaveLogits) {
  std::vector<TestRow> rows = {row(80, 64), row(30, 3, 2), row(30, 1), row(90, 60), {}};
  rows[0].flags = 0;  // a prompt's middle part
  TestStep step(rows);
  EXPECT_THAT(take(step.view().logit_start, 6), ElementsAre(0, 0, 3, 4, 5, 5));
  EXPECT_THAT(take(step.view().logit_tokens, 6), ElementsAre(64, 65, 66, 67, 127, -1));
}

}  // namespace
}  // namespace headrace::metadata
