// SPDX-License-Identifier: Apache-2.0
// Rows that advance by themselves: by hand, and for many steps against sequences kept as plain
// vectors of tokens.
#include "metadata/advance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "metadata/arena.h"
#include "tests/support/scale.h"
#include "tests/support/step_builder.h"
#include "tests/support/step_reference.h"

namespace headrace::metadata {
namespace {

using test::TestRow;
using test::TestStep;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint32_t kRunning = kRowEmit | kRowSelfAdvance;

// A test step with the arrays that advance() and place_tokens() work on.
struct Advancing {
  Advancing(const std::vector<TestRow>& rows, test::TestStepOptions options)
      : step(rows, options),
        sampled(size(step.view().limits.max_tokens), -5),
        accepted(size(step.view().limits.max_rows), -5),
        next_drafts(accepted.size(), -5),
        next_token(accepted.size(), -5),
        stalled(accepted.size(), 0),
        drafts(accepted.size() * kMaxVerifyTokens, -5),
        token_ids(sampled.size(), -5) {}
  static size_t size(int32_t count) { return static_cast<size_t>(count); }

  AdvanceParams params(bool with_next_drafts = false) {
    return {step.arena().input(),
            step.view(),
            sampled.data(),
            accepted.data(),
            with_next_drafts ? next_drafts.data() : nullptr,
            next_token.data(),
            stalled.data()};
  }
  PlaceTokensParams place() {
    return {step.view(), next_token.data(), drafts.data(), kMaxVerifyTokens, token_ids.data()};
  }
  const Row& row(int32_t r) { return step.arena().input().rows[r]; }

  TestStep step;
  std::vector<int32_t> sampled, accepted, next_drafts, next_token, stalled, drafts, token_ids;
};

TEST(Advance, DecodeRowsGoOnByOneToken) {
  Advancing a({{.query_len = 1, .context_len = 7, .flags = kRunning},
               {.query_len = 1, .context_len = 3},
               {}},
              {.max_tokens = 4});
  a.sampled = {70, 71, -1, -1};
  advance(a.step.stream(), a.params());
  EXPECT_EQ(a.row(0).context_len, 8);
  EXPECT_EQ(a.row(0).query_len, 1);
  EXPECT_EQ(a.next_token[0], 70);
  EXPECT_EQ(a.row(1).context_len, 3);  // the host's row is left alone
  EXPECT_EQ(a.next_token[1], -5);
  EXPECT_THAT(a.stalled, Each(0));
  a.step.rebuild();
  a.token_ids[1] = 33;  // the host's token
  place_tokens(a.step.stream(), a.place());
  EXPECT_THAT(a.token_ids, ElementsAre(70, 33, 0, 0));
  EXPECT_EQ(a.step.view().token_position[0], 8);
}

TEST(Advance, APromptThatEndsBecomesADecodeRow) {
  Advancing a({{.query_len = 20, .flags = kRunning, .extra_pages = 1}}, {});
  a.sampled[0] = 9;
  advance(a.step.stream(), a.params());
  a.step.rebuild();
  EXPECT_EQ(a.step.view().kind[0], RowKind::kDecode);
  EXPECT_EQ(a.step.view().context_len[0], 20);
  EXPECT_EQ(a.step.view().has_initial_state[0], 1);
  EXPECT_EQ(a.next_token[0], 9);
}

TEST(Advance, AVerifyRowKeepsWhatWasAccepted) {
  for (int32_t accepted : {1, 2, 4}) {
    Advancing a(
        {{.query_len = 1, .context_len = 5, .flags = kRunning},
         {.query_len = 4, .context_len = 10, .num_drafts = 3, .flags = kRunning, .extra_pages = 1}},
        {});
    a.sampled = {50, 60, 61, 62, 63};
    a.accepted = {-99, accepted};
    a.next_drafts = {0, 2};
    a.drafts[16] = 81;
    a.drafts[17] = 82;
    advance(a.step.stream(), a.params(true));
    EXPECT_EQ(a.row(1).context_len, 10 + accepted);
    EXPECT_EQ(a.row(1).query_len, 3);
    EXPECT_EQ(a.row(1).num_drafts, 2);
    EXPECT_EQ(a.row(1).num_accepted, accepted);
    EXPECT_EQ(a.next_token[1], 59 + accepted);
    a.step.rebuild();
    place_tokens(a.step.stream(), a.place());
    EXPECT_THAT(a.token_ids, ElementsAre(50, 59 + accepted, 81, 82, 0));
  }
}

TEST(Advance, AStepWithoutDraftsAfterAVerifyStepReplaysOnceAndThenNoMore) {
  Advancing a(
      {{.query_len = 3, .context_len = 10, .num_drafts = 2, .flags = kRunning, .extra_pages = 1}},
      {});
  a.accepted = {2};
  a.next_drafts = {0};
  advance(a.step.stream(), a.params(true));
  a.step.rebuild();
  EXPECT_EQ(a.step.view().kind[0], RowKind::kDecode);
  EXPECT_EQ(a.step.view().num_accepted[0], 2);
  advance(a.step.stream(), a.params(true));
  a.step.rebuild();
  EXPECT_EQ(a.step.view().num_accepted[0], 0);
  EXPECT_EQ(a.step.view().context_len[0], 13);
}

TEST(Advance, AcceptedCountsOutsideTheWindowAreTakenToItsEnds) {
  for (auto [given, stays] : {std::pair{0, 1}, {-7, 1}, {4, 3}, {1000, 3}}) {
    Advancing a(
        {{.query_len = 3, .context_len = 10, .num_drafts = 2, .flags = kRunning, .extra_pages = 1}},
        {});
    a.accepted = {given};
    advance(a.step.stream(), a.params());
    EXPECT_EQ(a.row(0).context_len, 10 + stays);
  }
}

TEST(Advance, StateMovesToWhereItWasWritten) {
  Advancing a(
      {{.query_len = 1, .context_len = 4, .flags = kRunning, .initial_slot = 3, .final_slot = 8},
       {.query_len = 2,
        .context_len = 4,
        .num_drafts = 1,
        .flags = kRunning,
        .initial_slot = 0,
        .final_slot = 0}},
      {});
  a.accepted = {0, 2};
  advance(a.step.stream(), a.params());
  EXPECT_EQ(a.row(0).initial_slot, 8);
  EXPECT_EQ(a.row(0).final_slot, 8);
  EXPECT_EQ(a.row(1).initial_slot, 0);
  EXPECT_EQ(a.row(1).num_accepted, 0);  // no slot, nothing to replay
}

TEST(Advance, CheckpointsAreNotMadeTwice) {
  Advancing a({{.query_len = 70, .flags = kRunning, .extra_pages = 1}},
              {.checkpoints = {{0, 5, 64}}});
  advance(a.step.stream(), a.params());
  EXPECT_EQ(*a.step.arena().input().num_checkpoints, 0);
}

TEST(Advance, ARowWithoutPagesForItsStepWaitsAsPadding) {
  // 15 tokens and one page of 16: one more step fits.
  Advancing a({{.query_len = 1, .context_len = 14, .flags = kRunning}}, {.max_pages_per_row = 2});
  a.sampled = {11};
  advance(a.step.stream(), a.params());
  a.step.rebuild();
  EXPECT_EQ(a.stalled[0], 0);
  EXPECT_EQ(a.step.view().seq_len[0], 16);
  a.sampled = {12};
  advance(a.step.stream(), a.params());
  for (int waiting = 0; waiting < 3; ++waiting) {
    EXPECT_EQ(a.stalled[0], 1);
    a.step.rebuild();
    const StepView& v = a.step.view();
    EXPECT_EQ(v.kind[0], RowKind::kPadding);
    EXPECT_EQ(v.counts->num_logit_tokens, 0);
    EXPECT_EQ(v.slot_mapping[0], kNoToken);
    EXPECT_EQ(v.final_slot[0], kNullSlot);
    EXPECT_EQ(a.next_token[0], 12);
    a.sampled = {99};  // nobody's
    advance(a.step.stream(), a.params());
  }
  // The host grants a page.
  a.step.arena().input().rows[0].num_pages = 2;
  a.step.arena().input().page_table[1] = 7;
  advance(a.step.stream(), a.params());
  a.step.rebuild();
  place_tokens(a.step.stream(), a.place());
  EXPECT_EQ(a.stalled[0], 0);
  EXPECT_EQ(a.step.view().slot_mapping[0], 7 * 16);
  EXPECT_EQ(a.step.view().context_len[0], 16);
  EXPECT_EQ(a.token_ids[0], 12);
}

TEST(Advance, RowsThatLeaveAndPaddingWithStaleFieldsStayAway) {
  Advancing a({{.query_len = 1, .context_len = 4, .flags = kRunning}, {}},
              {.max_rows = 4, .padded_rows = 4});
  for (int i = 0; i < 3; ++i) {
    advance(a.step.stream(), a.params());
    a.step.rebuild();
    EXPECT_EQ(test::step_mismatch(a.step.arena()), "");
    EXPECT_EQ(a.step.view().counts->num_padding_rows, 3);
  }
  a.step.arena().input().rows[0].query_len = 0;
  advance(a.step.stream(), a.params());
  a.step.rebuild();
  EXPECT_EQ(a.step.view().counts->num_padding_rows, 4);
}

// Sequences as vectors: what a row's context must be at every step, and which tokens come next.
struct Sequence {
  std::vector<int32_t> tokens;  // accepted so far, the next input token not among them
  int32_t input = 0;            // first token of the next step
  int32_t num_drafts = 0;
  int32_t pages = 0;
};

TEST(Advance, ManyReplaysEqualSequencesOfTokens) {
  constexpr int32_t kRows = 6;
  constexpr int32_t kPageSize = 8;
  constexpr int32_t kPages = 40;
  std::mt19937 random(3);
  const auto in = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  int stalls = 0;
  int steps_run = 0;
  for (int run = 0; run < test::scaled(200); ++run) {
    std::vector<TestRow> rows;
    std::vector<Sequence> sequences;
    for (int32_t r = 0; r < kRows; ++r) {
      const int32_t prompt = in(1, 30);
      rows.push_back({.query_len = prompt, .flags = kRunning, .extra_pages = in(0, 1)});
      sequences.push_back({std::vector<int32_t>(static_cast<size_t>(prompt), 1), 0, 0, 0});
    }
    Advancing a(rows, {.page_size = kPageSize, .max_tokens = 200, .max_pages_per_row = kPages});
    const StepInput& input = a.step.arena().input();
    for (int32_t r = 0; r < kRows; ++r) {
      sequences[static_cast<size_t>(r)].pages = input.rows[r].num_pages;
      for (int32_t i = input.rows[r].num_pages; i < kPages; ++i) {
        input.page_table[r * kPages + i] = 5000 + r * kPages + i;
      }
    }
    a.step.stream().begin_capture();
    advance(a.step.stream(), a.params(true));
    // Between the two, since advance() still reads what the last step derived.
    a.step.stream().run([&](ThreadPool&) { test::poison_derived(a.step.arena()); });
    build(a.step.stream(), a.step.arena());
    place_tokens(a.step.stream(), a.place());
    const CpuGraph graph = a.step.stream().end_capture();

    for (int step = 0; step < 60; ++step) {
      // What the step that ran gives: a token for each logit, and how much stays.
      const StepView& v = a.step.view();
      for (int32_t i = 0; i < v.counts->num_logit_tokens; ++i) {
        a.sampled[static_cast<size_t>(i)] = in(100, 1 << 20);
      }
      for (int32_t r = 0; r < kRows; ++r) {
        Sequence& sequence = sequences[static_cast<size_t>(r)];
        const size_t at = static_cast<size_t>(r);
        a.next_drafts[at] = in(0, 3) == 0 ? in(1, 15) : 0;
        if (v.query_len[r] > 0) {
          const bool prompt = step == 0;
          a.accepted[at] = in(1, v.query_len[r]);
          const int32_t stay = v.kind[r] == RowKind::kVerify ? a.accepted[at] : 1;
          for (int32_t i = 0; !prompt && i < stay; ++i) {
            sequence.tokens.push_back(i == 0 ? sequence.input
                                             : a.drafts[at * 16 + Advancing::size(i) - 1]);
          }
          sequence.input =
              a.sampled[static_cast<size_t>(v.logit_start[r] + (prompt ? 0 : stay - 1))];
          sequence.num_drafts = a.next_drafts[at];
          for (int32_t i = 0; i < 15; ++i)
            a.drafts[at * 16 + Advancing::size(i)] = in(100, 1 << 20);
        }
        // Pages come late sometimes.
        if (in(0, 2) == 0) sequence.pages = std::min(kPages, sequence.pages + in(1, 2));
        input.rows[r].num_pages = sequence.pages;
      }
      a.step.stream().launch(graph);

      ASSERT_EQ(test::step_mismatch(a.step.arena()), "");
      ASSERT_TRUE(check_rows(a.step.arena()).ok()) << check_rows(a.step.arena()).message();
      for (int32_t r = 0; r < kRows; ++r) {
        const Sequence& sequence = sequences[static_cast<size_t>(r)];
        const int32_t context = static_cast<int32_t>(sequence.tokens.size());
        const int32_t want = 1 + sequence.num_drafts;
        const bool fits = context + want <= sequence.pages * kPageSize;
        ASSERT_EQ(a.stalled[static_cast<size_t>(r)], fits ? 0 : want);
        ASSERT_EQ(v.query_len[r], fits ? want : 0);
        if (!fits) {
          ++stalls;
          continue;
        }
        ++steps_run;
        ASSERT_EQ(v.context_len[r], context);
        for (int32_t i = 0; i < want; ++i) {
          const int32_t expected =
              i == 0 ? sequence.input : a.drafts[static_cast<size_t>(r * 16 + i - 1)];
          ASSERT_EQ(a.token_ids[static_cast<size_t>(v.query_start_i32[r] + i)], expected);
        }
      }
    }
  }
  EXPECT_GT(stalls, test::scaled(1000));
  EXPECT_GT(steps_run, test::scaled(1000));
}

}  // namespace
}  // namespace headrace::metadata
