// SPDX-License-Identifier: Apache-2.0
// Bad limits and bad rows are named by field, row and value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "metadata/arena.h"

namespace headrace::metadata {
namespace {

using ::testing::HasSubstr;

Limits small_limits() { return Limits{3, 20, 4, 16, 2, 2, 64}; }

// A decode row, a padding row with garbage and a prefill row: valid as it stands.
StepArena valid_arena() {
  StepArena arena = std::move(StepArena::create(Device::kCpu, small_limits())).value();
  const StepInput& input = arena.input();
  *input.num_rows = 3;
  *input.padded_rows = 3;
  input.rows[0] = {1, 16, 0, kRowEmit, 1, 1, 0, 2};
  input.rows[1] = {0, -5, -1, ~0u, -9, -9, 99, 1000};
  input.rows[2] = {10, 60 - 10 + 4, 0, kRowEmit, 2, 2, 0, 4};
  for (int32_t i = 0; i < 3 * 4; ++i) input.page_table[i] = 1 + i;
  return arena;
}

TEST(CheckRows, AcceptsRowsWithinTheLimitsAndIgnoresPadding) {
  EXPECT_TRUE(check_rows(valid_arena()).ok()) << check_rows(valid_arena()).message();
}

struct BadCase {
  const char* message;
  std::function<void(const StepInput&)> spoil;
};

TEST(CheckRows, NamesRowAndValue) {
  const BadCase cases[] = {
      {"num_rows is 4: the arena holds 3", [](const StepInput& in) { *in.num_rows = 4; }},
      {"num_rows is -1", [](const StepInput& in) { *in.num_rows = -1; }},
      {"padded_rows is 2: give 3", [](const StepInput& in) { *in.padded_rows = 2; }},
      {"padded_rows is 4", [](const StepInput& in) { *in.padded_rows = 4; }},
      {"row 1: query_len is -2", [](const StepInput& in) { in.rows[1].query_len = -2; }},
      {"row 0: context_len is -1", [](const StepInput& in) { in.rows[0].context_len = -1; }},
      {"row 0: num_drafts is -1", [](const StepInput& in) { in.rows[0].num_drafts = -1; }},
      {"row 0: query_len 1 with num_drafts 2",
       [](const StepInput& in) { in.rows[0].num_drafts = 2; }},
      {"row 2: num_drafts is 16: a verify row has at most 15 drafts",
       [](const StepInput& in) {
         in.rows[2].query_len = 17;
         in.rows[2].context_len = 10;
         in.rows[2].num_drafts = 16;
       }},
      {"row 2: num_drafts is 1 without context",
       [](const StepInput& in) { in.rows[2] = {2, 0, 1, 0, 0, 0, 0, 1}; }},
      {"row 2: context_len 55 plus query_len 10 passes the 64 tokens",
       [](const StepInput& in) { in.rows[2].context_len = 55; }},
      {"row 0: context_len 2147483647 plus query_len 1 passes",
       [](const StepInput& in) { in.rows[0].context_len = INT32_MAX; }},
      {"row 0: num_pages is 5", [](const StepInput& in) { in.rows[0].num_pages = 5; }},
      {"row 0: num_pages is 1: 17 tokens need 2 pages",
       [](const StepInput& in) { in.rows[0].num_pages = 1; }},
      {"row 2: page 3 of its table is 0", [](const StepInput& in) { in.page_table[11] = 0; }},
      {"row 0: page 1 of its table is -7", [](const StepInput& in) { in.page_table[1] = -7; }},
      {"row 0: initial_slot is -1", [](const StepInput& in) { in.rows[0].initial_slot = -1; }},
      {"row 0: final_slot is -1", [](const StepInput& in) { in.rows[0].final_slot = -1; }},
      {"row 0: num_accepted is 17", [](const StepInput& in) { in.rows[0].num_accepted = 17; }},
      {"row 0: num_accepted is 1 without a state",
       [](const StepInput& in) {
         in.rows[0].num_accepted = 1;
         in.rows[0].initial_slot = 0;
       }},
      {"row 0: kRowSelfAdvance without kRowEmit",
       [](const StepInput& in) { in.rows[0].flags = kRowSelfAdvance; }},
      {"slot 2 is written by two", [](const StepInput& in) { in.rows[0].final_slot = 2; }},
      {"slot 1 is read by row 0 and written by another",
       [](const StepInput& in) {
         in.rows[0].final_slot = 0;
         in.rows[2].final_slot = 1;
       }},
      {"num_checkpoints is 3: the arena holds 2",
       [](const StepInput& in) { *in.num_checkpoints = 3; }},
  };
  for (const BadCase& bad : cases) {
    const StepArena arena = valid_arena();
    bad.spoil(arena.input());
    const Status status = check_rows(arena);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(status.message(), HasSubstr(bad.message));
  }
}

TEST(CheckRows, TooManyTokensTogether) {
  const StepArena arena = valid_arena();
  arena.input().rows[1] = {10, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_THAT(check_rows(arena).message(), HasSubstr("the rows bring 21 tokens"));
}

TEST(CheckRows, Checkpoints) {
  const StepArena arena = valid_arena();
  *arena.input().num_checkpoints = 1;
  // Row 2 goes from 54 to 64.
  arena.input().checkpoints[0] = {2, 5, 64};
  EXPECT_TRUE(check_rows(arena).ok()) << check_rows(arena).message();

  const auto message = [&](Checkpoint checkpoint) {
    arena.input().checkpoints[0] = checkpoint;
    return check_rows(arena).message();
  };
  EXPECT_THAT(message({3, 5, 64}), HasSubstr("row is 3"));
  EXPECT_THAT(message({-1, 5, 64}), HasSubstr("row is -1"));
  EXPECT_THAT(message({2, 0, 64}), HasSubstr("slot is 0"));
  EXPECT_THAT(message({2, 5, 54}), HasSubstr("position is 54: the step brings the row from 54"));
  EXPECT_THAT(message({2, 5, 65}), HasSubstr("position is 65"));
  EXPECT_THAT(message({2, 5, 60}), HasSubstr("multiple of 64"));
  EXPECT_THAT(message({1, 5, 64}), HasSubstr("position is 64"));  // a padding row has no state
  EXPECT_THAT(message({2, 2, 64}), HasSubstr("slot 2 is written by two"));
  EXPECT_THAT(message({2, 1, 64}), HasSubstr("slot 1 is written by two"));
  arena.input().rows[2] = {2, 62, 1, 0, 2, 2, 0, 4};
  EXPECT_THAT(message({2, 5, 64}), HasSubstr("verify row"));
}

TEST(StepArena, NamesTheLimitThatMakesNoSense) {
  const auto message = [](Limits limits) {
    const auto arena = StepArena::create(Device::kCpu, limits);
    return arena.ok() ? std::string("accepted") : arena.status().message();
  };
  const Limits good = small_limits();
  EXPECT_EQ(message(good), "accepted");
  const auto with = [&](int32_t Limits::*field, int32_t value) {
    Limits limits = good;
    limits.*field = value;
    return message(limits);
  };
  EXPECT_THAT(with(&Limits::max_rows, 0), HasSubstr("max_rows is 0"));
  EXPECT_THAT(with(&Limits::max_tokens, -1), HasSubstr("max_tokens is -1"));
  EXPECT_THAT(with(&Limits::max_pages_per_row, 0), HasSubstr("max_pages_per_row is 0"));
  EXPECT_THAT(with(&Limits::num_workers, 0), HasSubstr("num_workers is 0"));
  EXPECT_THAT(with(&Limits::split_tokens, 0), HasSubstr("split_tokens is 0"));
  EXPECT_THAT(with(&Limits::max_checkpoints, -1), HasSubstr("max_checkpoints is -1"));
  for (int32_t page_size : {-16, 0, 2, 7, 15, 17, 24, 1040}) {
    EXPECT_THAT(with(&Limits::page_size, page_size), HasSubstr("page_size is"));
  }
  for (int32_t page_size : {1, 8, 16, 48, 1024}) {
    EXPECT_EQ(with(&Limits::page_size, page_size), "accepted");
  }
  EXPECT_THAT(with(&Limits::max_pages_per_row, INT32_MAX), HasSubstr("positions are 32-bit"));
  EXPECT_THAT(with(&Limits::max_rows, INT32_MAX), HasSubstr("lower one of them"));
  EXPECT_THAT(with(&Limits::num_workers, INT32_MAX), HasSubstr("num_workers"));
  Limits wide = good;
  wide.max_rows = 1 << 20;
  wide.max_pages_per_row = 1 << 10;
  wide.page_size = 1024;
  wide.split_tokens = 64;
  EXPECT_THAT(message(wide), HasSubstr("raise split_tokens"));
}

TEST(StepArena, OtherDevicesAreRefused) {
  const auto arena = StepArena::create(Device::kCuda, small_limits());
  EXPECT_EQ(arena.status().code(), StatusCode::kUnsupported);
}

TEST(StepArena, MovesWithoutMovingItsArrays) {
  StepArena arena = valid_arena();
  const int32_t* before = arena.view().query_len;
  const StepArena moved = std::move(arena);
  EXPECT_EQ(moved.view().query_len, before);
  EXPECT_EQ(moved.input().rows[0].context_len, 16);
}

}  // namespace
}  // namespace headrace::metadata
