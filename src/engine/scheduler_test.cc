// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "metadata/row.h"
#include "tests/support/scale.h"

namespace headrace::engine {
namespace {

struct Case {
  SchedulerLimits limits;
  std::vector<SequenceLengths> running;
  std::vector<SequenceLengths> waiting;
  int32_t free_pages = 1000;
  int32_t free_slots = 100;
  bool prefill_first = false;

  StepPlan plan() const {
    StepPlan plan;
    plan_step(limits, {running, waiting, free_pages, free_slots, prefill_first}, plan);
    return plan;
  }
};

std::vector<int32_t> sequences(const StepPlan& plan) {
  std::vector<int32_t> found;
  for (const PlannedRow& row : plan.rows) found.push_back(row.sequence);
  return found;
}

std::vector<int32_t> query_lens(const StepPlan& plan) {
  std::vector<int32_t> found;
  for (const PlannedRow& row : plan.rows) found.push_back(row.query_len);
  return found;
}

using Ints = std::vector<int32_t>;

TEST(EngineSchedulerTest, ChunksAreCutAtMultiplesOf64) {
  EXPECT_EQ(prefill_chunk(0, 10, 512), 10) << "what fits is taken whole";
  EXPECT_EQ(prefill_chunk(0, 64, 64), 64);
  EXPECT_EQ(prefill_chunk(0, 200, 130), 128);
  EXPECT_EQ(prefill_chunk(128, 72, 70), 64);
  EXPECT_EQ(prefill_chunk(128, 72, 72), 72);
  EXPECT_EQ(prefill_chunk(0, 200, 63), 0) << "no edge inside the budget";
  EXPECT_EQ(prefill_chunk(30, 500, 100), 98) << "edges are absolute: 30 + 98 = 128";
  EXPECT_EQ(prefill_chunk(0, 5, 0), 0);
  EXPECT_EQ(prefill_chunk(0, 5, -1), 0);
}

TEST(EngineSchedulerTest, NoSingleTokenIsLeftOver) {
  EXPECT_EQ(prefill_chunk(0, 65, 64), 65) << "one past the budget rather than a decode row";
  EXPECT_EQ(prefill_chunk(64, 65, 64), 65);
  EXPECT_EQ(prefill_chunk(0, 129, 128), 129);
  EXPECT_EQ(prefill_chunk(0, 129, 100), 64);
  EXPECT_EQ(prefill_chunk(0, 66, 64), 64);
  EXPECT_EQ(prefill_chunk(0, 1, 1), 1);
}

TEST(EngineSchedulerTest, DecodesComeFirstThenRunningPrefillsThenNewOnes) {
  Case c;
  c.limits = {.max_rows = 8, .max_tokens = 256, .page_size = 16};
  c.running = {{100, 64, 7}, {50, 49, 4}, {81, 80, 6}};  // a prefill, two decodes
  c.waiting = {{10, 0, 0}, {1000, 0, 0}, {5, 0, 0}};
  const StepPlan plan = c.plan();
  EXPECT_EQ(sequences(plan), (Ints{1, 2, 0, 3, 4, 5}));
  EXPECT_EQ(query_lens(plan), (Ints{1, 1, 36, 10, 192, 5}))
      << "the giant takes what the grid allows, the last one what is left";
  EXPECT_EQ(plan.num_admitted, 3);
  EXPECT_EQ(plan.rows[0].new_pages, 0);
  EXPECT_TRUE(plan.rows[0].emit && plan.rows[0].is_decode);
  EXPECT_TRUE(plan.rows[2].emit) << "the prompt's last chunk";
  EXPECT_FALSE(plan.rows[4].emit);
  EXPECT_EQ(plan.rows[4].new_pages, 63) << "pages of the whole prompt and one token";
}

TEST(EngineSchedulerTest, ADecodeAtAPageEdgeGetsAPage) {
  Case c;
  c.running = {{17, 16, 1}, {16, 15, 1}, {33, 32, 2}};
  const StepPlan plan = c.plan();
  EXPECT_EQ(plan.rows[0].new_pages, 1);
  EXPECT_EQ(plan.rows[1].new_pages, 0);
  EXPECT_EQ(plan.rows[2].new_pages, 1);
}

TEST(EngineSchedulerTest, AFreshOneTokenPromptIsAPrefill) {
  Case c;
  c.waiting = {{1, 0, 0}};
  const StepPlan plan = c.plan();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_FALSE(plan.rows[0].is_decode);
  EXPECT_TRUE(plan.rows[0].emit);
}

TEST(EngineSchedulerTest, AdmissionStopsAtTheFirstThatDoesNotFit) {
  Case c;
  c.waiting = {{20, 0, 0}, {400, 0, 0}, {5, 0, 0}};
  c.free_pages = 10;
  EXPECT_EQ(c.plan().num_admitted, 1) << "the short third one must not overtake the second";
  c.free_pages = 1000;
  c.free_slots = 2;
  EXPECT_EQ(c.plan().num_admitted, 2) << "slots";
  c.free_slots = 0;
  EXPECT_EQ(c.plan().num_admitted, 0);
  c.free_slots = 100;
  c.limits.max_rows = 1;
  EXPECT_EQ(c.plan().num_admitted, 1) << "rows";
}

TEST(EngineSchedulerTest, ANewcomerLeavesAPageForEachThatRuns) {
  Case c;
  c.running = {{10, 9, 1}, {10, 9, 1}};
  c.waiting = {{31, 0, 0}};  // 2 pages
  c.free_pages = 4;
  EXPECT_EQ(c.plan().num_admitted, 1);
  c.free_pages = 3;
  EXPECT_EQ(c.plan().num_admitted, 0);
  c.running.clear();
  c.free_pages = 2;
  EXPECT_EQ(c.plan().num_admitted, 1) << "alone it needs no reserve";
}

TEST(EngineSchedulerTest, TheYoungestIsPreemptedForTheOldest) {
  Case c;
  c.running = {{17, 16, 1}, {20, 19, 2}, {33, 32, 2}};
  c.free_pages = 0;
  const StepPlan plan = c.plan();
  EXPECT_EQ(plan.preempted, (Ints{2}));
  EXPECT_EQ(sequences(plan), (Ints{0, 1}));
}

TEST(EngineSchedulerTest, TheYoungestMayHaveToGoForItself) {
  Case c;
  c.running = {{20, 19, 2}, {33, 32, 2}};
  c.free_pages = 0;
  const StepPlan plan = c.plan();
  EXPECT_EQ(plan.preempted, (Ints{1}));
  EXPECT_EQ(sequences(plan), (Ints{0}));
}

TEST(EngineSchedulerTest, APrefillIsPreemptedAsWell) {
  Case c;
  c.running = {{17, 16, 1}, {200, 64, 13}};
  c.waiting = {{5, 0, 0}};
  c.free_pages = 0;
  const StepPlan plan = c.plan();
  EXPECT_EQ(plan.preempted, (Ints{1}));
  EXPECT_EQ(sequences(plan), (Ints{0}));
  EXPECT_EQ(plan.num_admitted, 0) << "nobody comes in a step that sent somebody away";
}

TEST(EngineSchedulerTest, APrefillThatDecodesCrowdOutGoesFirstNextTime) {
  Case c;
  c.limits = {.max_rows = 16, .max_tokens = 64, .page_size = 16};
  for (int i = 0; i < 10; ++i) c.running.push_back({20, 19, 2});
  c.waiting = {{200, 0, 0}};
  StepPlan plan = c.plan();
  EXPECT_EQ(plan.rows.size(), 10u);
  EXPECT_TRUE(plan.prefill_was_left_out);
  c.prefill_first = true;
  plan = c.plan();
  EXPECT_EQ(plan.num_admitted, 1);
  EXPECT_EQ(query_lens(plan), (Ints{64})) << "the chunk fills the step";
  EXPECT_FALSE(plan.prefill_was_left_out) << "then the decodes have their turn";

  c.limits.max_tokens = 70;
  plan = c.plan();
  EXPECT_EQ(query_lens(plan), (Ints{1, 1, 1, 1, 1, 1, 64})) << "decode rows still stand first";
  EXPECT_EQ(plan.rows.back().sequence, 10);
}

TEST(EngineSchedulerTest, APrefillThatWentFirstIsNotPreemptedInItsStep) {
  Case c;
  c.limits = {.max_rows = 16, .max_tokens = 70, .page_size = 16};
  c.running = {{17, 16, 1}, {200, 64, 13}};
  c.free_pages = 0;
  c.prefill_first = true;
  const StepPlan plan = c.plan();
  EXPECT_TRUE(plan.preempted.empty());
  EXPECT_EQ(sequences(plan), (Ints{1})) << "the decode waits one step for its page";
}

TEST(EngineSchedulerTest, NothingToDoIsAnEmptyPlan) {
  const StepPlan plan = Case().plan();
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(plan.num_admitted, 0);
}

// What must hold for every plan, whatever the state.
void check_plan(const Case& c, const StepPlan& plan) {
  const auto num_running = static_cast<int32_t>(c.running.size());
  int32_t tokens = 0;
  int32_t pages = 0;
  bool seen_prefill = false;
  std::vector<bool> seen(c.running.size() + c.waiting.size(), false);
  for (const PlannedRow& row : plan.rows) {
    ASSERT_GE(row.sequence, 0);
    ASSERT_LT(row.sequence, num_running + plan.num_admitted);
    ASSERT_FALSE(seen[static_cast<size_t>(row.sequence)]) << "two rows of one sequence";
    seen[static_cast<size_t>(row.sequence)] = true;
    const SequenceLengths& sequence =
        row.sequence < num_running ? c.running[static_cast<size_t>(row.sequence)]
                                   : c.waiting[static_cast<size_t>(row.sequence - num_running)];
    const int32_t end = sequence.num_computed_tokens + row.query_len;
    ASSERT_GT(row.query_len, 0);
    ASSERT_LE(end, sequence.num_tokens);
    ASSERT_EQ(row.emit, end == sequence.num_tokens);
    ASSERT_TRUE(row.emit || end % metadata::kChunkTokens == 0) << "a cut off the grid";
    ASSERT_NE(sequence.num_tokens - end, 1) << "a single token is left over";
    ASSERT_EQ(row.is_decode, row.query_len == 1 && sequence.num_computed_tokens > 0);
    ASSERT_FALSE(row.is_decode && seen_prefill) << "a decode behind a prefill";
    seen_prefill = seen_prefill || !row.is_decode;
    ASSERT_GE((sequence.num_pages + row.new_pages) * c.limits.page_size, end) << "too few pages";
    tokens += row.query_len;
    pages += row.new_pages;
  }
  int32_t freed = 0;
  int32_t next_victim = num_running - 1;
  for (const int32_t victim : plan.preempted) {
    ASSERT_EQ(victim, next_victim--) << "not the youngest";
    ASSERT_FALSE(seen[static_cast<size_t>(victim)]) << "preempted and in the step";
    freed += c.running[static_cast<size_t>(victim)].num_pages;
  }
  ASSERT_LE(pages, c.free_pages + freed);
  ASSERT_LE(tokens, c.limits.max_tokens + 1);
  ASSERT_LE(static_cast<int32_t>(plan.rows.size()), c.limits.max_rows);
  ASSERT_LE(plan.num_admitted, c.free_slots);
  ASSERT_TRUE(plan.preempted.empty() || plan.num_admitted == 0);
  for (int32_t i = 0; i < plan.num_admitted; ++i) {
    ASSERT_TRUE(seen[static_cast<size_t>(num_running + i)]) << "admitted without a row";
  }
}

TEST(EngineSchedulerTest, EveryPlanOfRandomStatesKeepsTheRules) {
  std::mt19937 random(7);
  const auto pick = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  StepPlan plan;
  for (int i = 0; i < test::scaled(50000); ++i) {
    Case c;
    c.limits.page_size = std::vector<int32_t>{1, 8, 16, 64}[static_cast<size_t>(pick(0, 3))];
    c.limits.max_rows = pick(1, 12);
    c.limits.max_tokens = pick(64, 300);
    const auto pages_for = [&](int32_t n) {
      return (n + c.limits.page_size - 1) / c.limits.page_size;
    };
    int32_t held = 0;
    for (int32_t r = pick(0, c.limits.max_rows); r > 0; --r) {
      SequenceLengths sequence;
      if (pick(0, 1) == 0) {
        sequence.num_computed_tokens = pick(1, 300);
        sequence.num_tokens = sequence.num_computed_tokens + 1;
        sequence.num_pages = pages_for(sequence.num_computed_tokens + pick(0, 1));
      } else {
        sequence.num_computed_tokens = 64 * pick(1, 4);
        sequence.num_tokens = sequence.num_computed_tokens + pick(2, 200);
        sequence.num_pages = pages_for(sequence.num_tokens + 1);
      }
      held += sequence.num_pages;
      c.running.push_back(sequence);
    }
    for (int32_t w = pick(0, 4); w > 0; --w) c.waiting.push_back({pick(1, 400), 0, 0});
    // A pool that can hold each alone, and little more.
    c.free_pages = std::max(pages_for(501) - held, 0) + pick(0, 1) * pick(0, 40);
    c.free_slots = pick(0, 3) + (c.running.empty() ? 1 : 0);
    c.prefill_first = pick(0, 3) == 0;
    plan_step(c.limits, {c.running, c.waiting, c.free_pages, c.free_slots, c.prefill_first}, plan);
    ASSERT_NO_FATAL_FAILURE(check_plan(c, plan));
    if (!c.running.empty() || !c.waiting.empty()) {
      ASSERT_TRUE(!plan.rows.empty() || !plan.preempted.empty()) << "no progress";
    }
  }
}

}  // namespace
}  // namespace headrace::engine
