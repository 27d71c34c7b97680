// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/check.h"

namespace headrace::engine {
namespace {

const std::vector<int32_t> kEos = {2};

Sequence make(int32_t max_tokens, int32_t context = 100, std::vector<int32_t> stops = {},
              bool ignore_eos = false) {
  Request request;
  request.prompt_token_ids = {10, 11, 12};
  request.max_tokens = max_tokens;
  request.stop_token_ids = std::move(stops);
  request.ignore_eos = ignore_eos;
  return Sequence(7, std::move(request), kEos, context);
}

TEST(EngineSequenceTest, LivesThroughItsStates) {
  Sequence sequence = make(5);
  EXPECT_TRUE(sequence.is_waiting());
  EXPECT_FALSE(sequence.was_admitted());
  EXPECT_THROW(sequence.running(), InternalError);
  EXPECT_THROW(sequence.preempt(), InternalError);

  sequence.admit(4);
  EXPECT_TRUE(sequence.is_running());
  EXPECT_TRUE(sequence.was_admitted());
  EXPECT_THROW(sequence.admit(5), InternalError);
  sequence.running().pages = {8, 9};
  EXPECT_EQ(sequence.advance(3), 0);
  EXPECT_EQ(sequence.append(50), FinishReason::kNone);

  const Running held = sequence.preempt();
  EXPECT_EQ(held.slot, 4);
  EXPECT_EQ(held.pages, (std::vector<int32_t>{8, 9}));
  EXPECT_TRUE(sequence.is_waiting());
  EXPECT_TRUE(sequence.was_admitted());
  EXPECT_EQ(sequence.num_generated_tokens(), 1) << "what was generated is kept";

  sequence.admit(6);
  EXPECT_EQ(sequence.running().num_computed_tokens, 0);
  EXPECT_TRUE(sequence.running().pages.empty());
  EXPECT_EQ(sequence.advance(2), 2) << "computed again";
  EXPECT_EQ(sequence.advance(2), 1) << "one again, one for the first time";

  const Running last = sequence.finish(FinishReason::kCancelled);
  EXPECT_EQ(last.slot, 6);
  EXPECT_TRUE(sequence.is_finished());
  EXPECT_EQ(sequence.finish_reason(), FinishReason::kCancelled);
  EXPECT_THROW(sequence.finish(FinishReason::kStop), InternalError);
  EXPECT_THROW(sequence.admit(1), InternalError);
}

TEST(EngineSequenceTest, AWaitingOneFinishesWithNothingToGiveBack) {
  Sequence sequence = make(5);
  const Running held = sequence.finish(FinishReason::kCancelled);
  EXPECT_EQ(held.slot, 0);
  EXPECT_TRUE(held.pages.empty());
}

TEST(EngineSequenceTest, CannotComputeMoreThanItHas) {
  Sequence sequence = make(5);
  sequence.admit(1);
  EXPECT_THROW(sequence.advance(4), InternalError);
  Sequence other = make(5);
  other.admit(1);
  EXPECT_THROW(other.advance(0), InternalError);
}

TEST(EngineSequenceTest, EndsAtMaxTokens) {
  Sequence sequence = make(2);
  EXPECT_EQ(sequence.append(50), FinishReason::kNone);
  EXPECT_EQ(sequence.append(51), FinishReason::kLength);
  EXPECT_THROW(sequence.append(52), InternalError);
}

TEST(EngineSequenceTest, MaxTokensZeroIsTheRestOfTheContext) {
  Sequence sequence = make(0, 5);
  EXPECT_EQ(sequence.append(50), FinishReason::kNone);
  EXPECT_EQ(sequence.append(51), FinishReason::kLength);
}

TEST(EngineSequenceTest, TheContextEndsItBeforeMaxTokens) {
  Sequence sequence = make(50, 4);
  EXPECT_EQ(sequence.append(50), FinishReason::kLength);
}

TEST(EngineSequenceTest, StopsAtEosAndStopIds) {
  EXPECT_EQ(make(9).append(2), FinishReason::kStop);
  EXPECT_EQ(make(9, 100, {33}).append(33), FinishReason::kStop);
  EXPECT_EQ(make(9, 100, {33}).append(2), FinishReason::kStop);
  EXPECT_EQ(make(1).append(2), FinishReason::kStop) << "a stop goes before the length";
}

TEST(EngineSequenceTest, IgnoringEosKeepsTheRequestsOwnStops) {
  EXPECT_EQ(make(9, 100, {}, true).append(2), FinishReason::kNone);
  EXPECT_EQ(make(9, 100, {33}, true).append(33), FinishReason::kStop);
  EXPECT_EQ(make(9, 100, {2}, true).append(2), FinishReason::kStop) << "asked for by name";
}

}  // namespace
}  // namespace headrace::engine
