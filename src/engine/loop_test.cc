// SPDX-License-Identifier: Apache-2.0
// Situations of the engine loop, step by step, with a model that gives every scheduling mistake
// away (tests/support/fake_model.h) and poison in all that is free.
#include "engine/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_test_util.h"
#include "tests/support/scale.h"

namespace headrace::engine {
namespace {

Request make_request(int32_t prompt_tokens, int32_t max_tokens, uint32_t seed = 1) {
  Request request;
  request.prompt_token_ids = make_prompt(prompt_tokens, seed);
  request.max_tokens = max_tokens;
  return request;
}

TEST(EngineLoopTest, OneRequestGivesOneTokenAStep) {
  LoopHarness h({});
  const RequestId id = h.add(make_request(10, 5));
  h.loop->step();
  EXPECT_EQ(h.heard[id].token_ids.size(), 1u) << "the prompt's step gives the first token";
  h.run_to_end();
  EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  EXPECT_EQ(h.heard[id].finish, FinishReason::kLength);
  EXPECT_EQ(h.heard[id].num_updates, 5);
  const MetricsSnapshot metrics = h.loop->metrics();
  EXPECT_EQ(metrics.steps, 5);
  EXPECT_EQ(metrics.decode_only_steps, 4);
  EXPECT_EQ(metrics.prompt_tokens, 10);
  h.expect_idle();
}

TEST(EngineLoopTest, ALongPromptIsComputedInChunks) {
  LoopHarness h({.max_tokens = 64});
  const RequestId id = h.add(make_request(200, 3));
  int steps_to_first = 0;
  while (h.heard[id].token_ids.empty()) {
    h.loop->step();
    ++steps_to_first;
  }
  EXPECT_EQ(steps_to_first, 4);
  h.run_to_end();
  EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  h.expect_idle();
}

TEST(EngineLoopTest, APromptOf65TokensTakesOneStepOf64And1) {
  LoopHarness h({.max_tokens = 64});
  const RequestId id = h.add(make_request(65, 2));
  h.loop->step();
  EXPECT_EQ(h.heard[id].token_ids.size(), 1u);
  h.run_to_end();
  EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
}

TEST(EngineLoopTest, ShortOnesGoOnWhileAGiantPromptIsComputed) {
  LoopHarness h({.max_tokens = 128, .max_model_len = 1024, .num_pages = 128});
  const RequestId a = h.add(make_request(5, 50, 1));
  const RequestId giant = h.add(make_request(900, 5, 2));
  const RequestId b = h.add(make_request(6, 50, 3));
  for (int i = 0; i < 8; ++i) h.loop->step();
  EXPECT_EQ(h.heard[a].token_ids.size(), 8u) << "a token every step";
  EXPECT_TRUE(h.heard[giant].token_ids.empty());
  h.run_to_end();
  for (const RequestId id : {a, giant, b}) EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  h.expect_idle();
}

TEST(EngineLoopTest, ABudgetOf64ServesAGiantPromptAndDecodesInTurn) {
  LoopHarness h({.max_rows = 4, .max_tokens = 64});
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 3; ++i) ids.push_back(h.add(make_request(4, 40, i)));
  h.loop->step();
  ids.push_back(h.add(make_request(400, 4, 9)));
  for (int i = 0; i < 20; ++i) h.loop->step();
  EXPECT_FALSE(h.heard[ids[3]].token_ids.empty()) << "the giant starves";
  EXPECT_GE(h.heard[ids[0]].token_ids.size(), 10u) << "the decodes starve";
  h.run_to_end();
  for (const RequestId id : ids) EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  h.expect_idle();
}

TEST(EngineLoopTest, TheYoungestIsPreemptedAndResumes) {
  LoopHarness h({.max_model_len = 96, .page_size = 16, .num_pages = 6});
  const RequestId a = h.add(make_request(30, 60, 1));
  const RequestId b = h.add(make_request(20, 60, 2));
  h.run_to_end();
  EXPECT_EQ(h.heard[a].token_ids, h.expected(a));
  EXPECT_EQ(h.heard[b].token_ids, h.expected(b));
  const MetricsSnapshot metrics = h.loop->metrics();
  EXPECT_GE(metrics.preemptions, 1);
  EXPECT_GT(metrics.recomputed_tokens, 20);
  EXPECT_EQ(metrics.prompt_tokens, 50) << "prompts are counted once";
  EXPECT_LT(h.heard[a].timings.total_s, h.heard[b].timings.total_s) << "the older one went on";
  h.expect_idle();
}

TEST(EngineLoopTest, APreemptedOneStandsBeforeThoseThatNeverRan) {
  LoopHarness h({.max_model_len = 96, .page_size = 16, .num_pages = 6, .num_slots = 2});
  const RequestId a = h.add(make_request(30, 60, 1));
  const RequestId b = h.add(make_request(20, 60, 2));
  const RequestId c = h.add(make_request(5, 4, 3));
  while (h.loop->metrics().preemptions == 0) h.loop->step();
  const size_t before = h.heard[b].token_ids.size();
  EXPECT_TRUE(h.heard[c].token_ids.empty()) << "there is no slot for it yet";
  while (h.heard[c].token_ids.empty()) h.loop->step();
  EXPECT_GT(h.heard[b].token_ids.size(), before) << "the short one overtook it";
  h.run_to_end();
  for (const RequestId id : {a, b, c}) EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  h.expect_idle();
}

TEST(EngineLoopTest, ARandomDrawIsTheSameAfterAPreemption) {
  LoopHarness h({.max_model_len = 96, .page_size = 16, .num_pages = 6});
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 3; ++i) {
    Request request = make_request(20, 60, 5);
    request.sampling = {.temperature = 1.3f, .top_k = 20, .top_p = 0.9f, .seed = 42};
    request.sampling.choice_index = i;
    ids.push_back(h.add(request));
  }
  h.run_to_end();
  EXPECT_GE(h.loop->metrics().preemptions, 1);
  for (const RequestId id : ids) EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  EXPECT_NE(h.heard[ids[0]].token_ids, h.heard[ids[1]].token_ids) << "choices differ";
}

TEST(EngineLoopTest, WithOneSlotRequestsRunOneAfterTheOther) {
  LoopHarness h({.num_slots = 1});
  const RequestId a = h.add(make_request(10, 4, 1));
  const RequestId b = h.add(make_request(10, 4, 2));
  h.loop->step();
  EXPECT_EQ(h.loop->metrics().num_running, 1);
  EXPECT_EQ(h.loop->metrics().num_waiting, 1);
  h.run_to_end();
  EXPECT_EQ(h.heard[a].token_ids, h.expected(a));
  EXPECT_EQ(h.heard[b].token_ids, h.expected(b)) << "the slot of the first was dirty";
  h.expect_idle();
}

TEST(EngineLoopTest, WithAllPagesTakenTheNextOneWaits) {
  LoopHarness h({.max_model_len = 64, .page_size = 16, .num_pages = 4});
  const RequestId a = h.add(make_request(50, 4, 1));
  const RequestId b = h.add(make_request(50, 4, 2));
  h.loop->step();
  EXPECT_EQ(h.loop->metrics().num_waiting, 1);
  EXPECT_EQ(h.loop->metrics().preemptions, 0);
  h.run_to_end();
  EXPECT_EQ(h.heard[a].token_ids, h.expected(a));
  EXPECT_EQ(h.heard[b].token_ids, h.expected(b));
  h.expect_idle();
}

TEST(EngineLoopTest, CancelsAWaitingOneAtOnce) {
  LoopHarness h({.num_slots = 1});
  const RequestId a = h.add(make_request(10, 4));
  const RequestId b = h.add(make_request(10, 4));
  h.loop->step();
  h.loop->cancel(b);
  EXPECT_EQ(h.heard[b].finish, FinishReason::kCancelled);
  EXPECT_TRUE(h.heard[b].token_ids.empty());
  h.run_to_end();
  EXPECT_EQ(h.heard[a].token_ids, h.expected(a));
  h.expect_idle();
}

TEST(EngineLoopTest, CancelsADecodingOneAndFreesWhatItHeld) {
  LoopHarness h({});
  const RequestId a = h.add(make_request(10, 40, 1));
  const RequestId b = h.add(make_request(10, 10, 2));
  for (int i = 0; i < 3; ++i) h.loop->step();
  const int64_t used = h.loop->metrics().num_pages_used;
  h.loop->cancel(a);
  EXPECT_EQ(h.heard[a].finish, FinishReason::kCancelled);
  EXPECT_EQ(h.heard[a].token_ids.size(), 3u);
  EXPECT_LT(h.loop->metrics().num_pages_used, used);
  EXPECT_EQ(h.loop->metrics().num_slots_used, 1);
  h.run_to_end();
  EXPECT_EQ(h.heard[b].token_ids, h.expected(b));
  h.expect_idle();
}

TEST(EngineLoopTest, CancelsOneInTheMiddleOfItsPrompt) {
  LoopHarness h({.max_tokens = 64});
  const RequestId a = h.add(make_request(300, 4));
  h.loop->step();
  h.loop->step();
  h.loop->cancel(a);
  EXPECT_EQ(h.heard[a].finish, FinishReason::kCancelled);
  EXPECT_FALSE(h.loop->has_work());
  h.expect_idle();
}

TEST(EngineLoopTest, CancelsAPreemptedOne) {
  LoopHarness h({.max_model_len = 96, .page_size = 16, .num_pages = 6});
  const RequestId a = h.add(make_request(30, 60, 1));
  const RequestId b = h.add(make_request(20, 60, 2));
  while (h.loop->metrics().preemptions == 0) h.loop->step();
  EXPECT_EQ(h.loop->metrics().num_waiting, 1);
  h.loop->cancel(b);
  EXPECT_EQ(h.heard[b].finish, FinishReason::kCancelled);
  h.run_to_end();
  EXPECT_EQ(h.heard[a].token_ids, h.expected(a));
  h.expect_idle();
}

TEST(EngineLoopTest, ACancelTwiceOrTooLateDoesNothing) {
  LoopHarness h({});
  const RequestId a = h.add(make_request(10, 2));
  const RequestId b = h.add(make_request(10, 9));
  h.loop->step();
  h.loop->cancel(b);
  h.loop->cancel(b);
  h.run_to_end();
  h.loop->cancel(a);
  h.loop->cancel(12345);
  EXPECT_EQ(h.heard[a].finish, FinishReason::kLength);
  EXPECT_EQ(h.loop->metrics().requests_cancelled, 1);
  h.expect_idle();
}

TEST(EngineLoopTest, CancelAllEndsRunningAndWaiting) {
  LoopHarness h({.num_slots = 2});
  for (uint32_t i = 0; i < 5; ++i) h.add(make_request(10, 20, i));
  h.loop->step();
  h.loop->cancel_all();
  EXPECT_FALSE(h.loop->has_work());
  EXPECT_EQ(h.loop->metrics().requests_cancelled, 5);
  h.expect_idle();
}

TEST(EngineLoopTest, StopsAtAStopIdAndAtEosUnlessIgnored) {
  LoopOptions options;
  const Request plain = make_request(10, 12);
  const std::vector<int32_t> free_run = test::fake_answer(plain, options.model, 512);
  const int32_t third = free_run[2];
  const auto first_at = std::find(free_run.begin(), free_run.end(), third) - free_run.begin();
  options.model.eos_token_ids = {third};

  LoopHarness h(options);
  Request ignoring = plain;
  ignoring.ignore_eos = true;
  const RequestId a = h.add(plain);
  const RequestId b = h.add(ignoring);
  ignoring.stop_token_ids = {third};
  const RequestId c = h.add(ignoring);
  h.run_to_end();
  EXPECT_EQ(h.heard[a].finish, FinishReason::kStop);
  EXPECT_EQ(h.heard[a].token_ids.size(), static_cast<size_t>(first_at) + 1);
  EXPECT_EQ(h.heard[a].token_ids.back(), third) << "the stop id itself is included";
  EXPECT_EQ(h.heard[b].finish, FinishReason::kLength);
  EXPECT_EQ(h.heard[b].token_ids, free_run);
  EXPECT_EQ(h.heard[c].finish, FinishReason::kStop);
  EXPECT_EQ(h.loop->metrics().requests_finished, 3);
  h.expect_idle();
}

TEST(EngineLoopTest, MaxTokensZeroFillsTheContext) {
  LoopHarness h({.max_model_len = 40, .num_pages = 3});
  const RequestId id = h.add(make_request(10, 0));
  h.run_to_end();
  EXPECT_EQ(h.heard[id].token_ids.size(), 30u);
  EXPECT_EQ(h.heard[id].finish, FinishReason::kLength);
  EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  h.expect_idle();
}

TEST(EngineLoopTest, APromptOneShortOfTheContextGivesOneToken) {
  LoopHarness h({.max_model_len = 32, .page_size = 16, .num_pages = 2});
  const RequestId id = h.add(make_request(31, 5));
  h.run_to_end();
  EXPECT_EQ(h.heard[id].token_ids, h.expected(id));
  EXPECT_EQ(h.heard[id].token_ids.size(), 1u);
  EXPECT_EQ(h.heard[id].finish, FinishReason::kLength);
  h.expect_idle();
}

TEST(EngineLoopTest, TimingsAreInOrder) {
  LoopHarness h({});
  const RequestId id = h.add(make_request(10, 3));
  h.run_to_end();
  const RequestTimings& timings = h.heard[id].timings;
  EXPECT_GE(timings.queued_s, 0.0);
  EXPECT_GT(timings.first_token_s, timings.queued_s);
  EXPECT_GT(timings.total_s, timings.first_token_s);
}

// Swallows the log while it lives.
class QuietLog {
 public:
  QuietLog() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~QuietLog() { set_log_sink(nullptr); }
};

TEST(EngineLoopTest, ABrokenStepFailsItsRequestsAndNoOthers) {
  QuietLog quiet;
  LoopHarness h({.num_slots = 2});
  const RequestId a = h.add(make_request(10, 20, 1));
  const RequestId b = h.add(make_request(10, 20, 2));
  const RequestId c = h.add(make_request(10, 20, 3));
  int step = 0;
  h.model.on_step = [&](const metadata::StepView&) {
    if (++step == 3) check_failed("sound", "fake.cc", 1, "");
  };
  h.run_to_end();
  for (const RequestId id : {a, b}) {
    EXPECT_EQ(h.heard[id].finish, FinishReason::kError);
    EXPECT_EQ(h.heard[id].status.code(), StatusCode::kInternal);
    EXPECT_NE(h.heard[id].status.message().find("fake.cc"), std::string::npos);
    EXPECT_EQ(h.heard[id].token_ids.size(), 2u);
  }
  EXPECT_EQ(h.heard[c].finish, FinishReason::kLength) << "it waited, and runs afterwards";
  EXPECT_EQ(h.heard[c].token_ids, h.expected(c));
  EXPECT_EQ(h.loop->metrics().requests_failed, 2);
  h.expect_idle();
}

TEST(EngineLoopTest, AStepThatAlwaysBreaksStillComesToAnEnd) {
  QuietLog quiet;
  LoopHarness h({.num_slots = 1});
  for (uint32_t i = 0; i < 4; ++i) h.add(make_request(10, 20, i));
  h.model.on_step = [](const metadata::StepView&) { throw std::bad_alloc(); };
  h.run_to_end(10);
  EXPECT_EQ(h.loop->metrics().requests_failed, 4);
  h.expect_idle();
}

TEST(EngineLoopTest, MoreGraphsAreCapturedOnlyForNewBuckets) {
  LoopHarness h({.max_rows = 4, .max_tokens = 64});
  EXPECT_EQ(h.runner->num_captured_graphs(), 3u) << "decode graphs of 1, 2 and 4 rows";
  h.add(make_request(10, 5));
  h.run_to_end();
  EXPECT_EQ(h.runner->num_captured_graphs(), 4u) << "one row of up to 16 tokens";
  h.add(make_request(9, 5));
  h.add(make_request(65, 5));
  h.run_to_end();
  const size_t warm = h.runner->num_captured_graphs();
  h.add(make_request(16, 5));
  h.run_to_end();
  EXPECT_EQ(h.runner->num_captured_graphs(), warm);
}

// Random requests, arrivals, cancels and preemptions: every answer is what the tokens alone say,
// nothing leaks, and the counters add up.
TEST(EngineLoopTest, RandomTrafficGivesEveryRequestItsOwnAnswer) {
  std::mt19937 random(11);
  const auto pick = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  const int rounds = test::scaled(20);
  const int requests_a_round = 100;
  int64_t preemptions = 0;
  int64_t cancelled = 0;
  for (int round = 0; round < rounds; ++round) {
    LoopOptions options;
    options.model.eos_token_ids = {3};
    options.page_size = std::vector<int32_t>{1, 8, 16, 64}[static_cast<size_t>(pick(0, 3))];
    options.max_rows = pick(2, 8);
    options.max_tokens = pick(64, 200);
    options.max_model_len = 260;
    const int32_t one = (options.max_model_len + options.page_size - 1) / options.page_size;
    options.num_pages = one + pick(0, one);
    options.num_slots = pick(options.max_rows - 1, options.max_rows);
    LoopHarness h(options);
    std::vector<RequestId> ids;
    while (static_cast<int>(ids.size()) < requests_a_round || h.loop->has_work()) {
      for (int n = pick(0, 2); n > 0 && static_cast<int>(ids.size()) < requests_a_round; --n) {
        const int32_t length = pick(0, 4) == 0 ? pick(1, 259) : pick(1, 40);
        Request request = make_request(length, pick(0, 9) == 0 ? 0 : pick(1, 90),
                                       static_cast<uint32_t>(random()));
        request.ignore_eos = pick(0, 1) == 0;
        if (pick(0, 2) == 0) {
          request.sampling.temperature = 0.7f;
          request.sampling.seed = random();
          request.sampling.top_p = 0.95f;
        }
        ids.push_back(h.add(request));
      }
      if (pick(0, 15) == 0 && !ids.empty()) {
        h.loop->cancel(ids[static_cast<size_t>(pick(0, static_cast<int32_t>(ids.size()) - 1))]);
      }
      if (h.loop->has_work()) h.loop->step();
    }
    h.expect_idle();
    for (const RequestId id : ids) {
      const Heard& heard = h.heard[id];
      std::vector<int32_t> expected = h.expected(id);
      ASSERT_NE(heard.finish, FinishReason::kNone);
      ASSERT_NE(heard.finish, FinishReason::kError) << heard.status.message();
      if (heard.finish == FinishReason::kCancelled) {
        ASSERT_LE(heard.token_ids.size(), expected.size());
        expected.resize(heard.token_ids.size());
      }
      ASSERT_EQ(heard.token_ids, expected) << "request " << id << " of round " << round;
    }
    preemptions += h.loop->metrics().preemptions;
    cancelled += h.loop->metrics().requests_cancelled;
  }
  EXPECT_GT(preemptions, 2 * rounds) << "the test does not test preemption";
  EXPECT_GT(cancelled, rounds) << "the test does not test cancellation";
}

}  // namespace
}  // namespace headrace::engine
