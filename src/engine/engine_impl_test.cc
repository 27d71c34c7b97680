// SPDX-License-Identifier: Apache-2.0
// The public engine on its thread, over the fake model: what callers on several threads see.
#include "engine/engine_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/engine_test_util.h"
#include "engine/metrics_board.h"
#include "tests/support/scale.h"

namespace headrace::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Lets the engine thread into its steps one by one, or freely.
class Gate {
 public:
  void wait_inside() {
    std::unique_lock lock(mutex_);
    inside_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_until_inside() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool inside_ = false;
  bool open_ = false;
};

struct FakeEngine {
  test::FakeModelOptions model = {};
  EngineOptions options = {.num_threads = 1,
                           .max_model_len = 200,
                           .num_pages = 40,
                           .max_num_seqs = 4,
                           .max_num_batched_tokens = 64};
  int32_t num_slots = 4;
  std::function<void(const metadata::StepView&)> on_step = nullptr;
};

std::unique_ptr<Engine> start(const FakeEngine& fake) {
  auto model = std::make_unique<test::FakeModel>(fake.model);
  model->on_step = fake.on_step;
  const model::Model* borrowed = model.get();
  EngineParts parts;
  parts.model = std::move(model);
  parts.options = fake.options;
  parts.num_slots = fake.num_slots;
  parts.before_start = [borrowed](EngineLoop& loop, Runner& runner) {
    poison_freed(*borrowed, loop, runner);
  };
  auto engine = start_engine(std::move(parts));
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(*engine);
}

Request make_request(int32_t prompt_tokens, int32_t max_tokens, uint32_t seed = 1) {
  Request request;
  request.prompt_token_ids = make_prompt(prompt_tokens, seed);
  request.max_tokens = max_tokens;
  return request;
}

TEST(EngineThreadTest, AnswersAndCountsWhatItDid) {
  const FakeEngine fake;
  const auto engine = start(fake);
  Heard a;
  Heard b;
  const Request request_a = make_request(30, 8, 1);
  const Request request_b = make_request(5, 20, 2);
  ASSERT_TRUE(engine->submit(request_a, [&](const RequestUpdate& u) { a.hear(u); }).ok());
  ASSERT_TRUE(engine->submit(request_b, [&](const RequestUpdate& u) { b.hear(u); }).ok());
  engine->wait_idle();
  EXPECT_EQ(a.token_ids, test::fake_answer(request_a, fake.model, 200));
  EXPECT_EQ(b.token_ids, test::fake_answer(request_b, fake.model, 200));
  const MetricsSnapshot metrics = engine->metrics();
  EXPECT_EQ(metrics.requests_submitted, 2);
  EXPECT_EQ(metrics.requests_finished, 2);
  EXPECT_EQ(metrics.prompt_tokens, 35);
  EXPECT_EQ(metrics.generated_tokens, 28);
  EXPECT_EQ(metrics.num_pages, 40);
  EXPECT_EQ(metrics.num_pages_used, 0);
  EXPECT_EQ(metrics.num_slots_used, 0);
  EXPECT_GT(metrics.step_seconds, 0.0);
}

TEST(EngineThreadTest, IdleAtOnceAndDestroyedAtOnce) {
  const auto engine = start({});
  engine->wait_idle();
  EXPECT_EQ(engine->metrics().steps, 0);
}

TEST(EngineThreadTest, RefusesWhatCanNeverRun) {
  const auto engine = start({});
  const auto error = [&](const Request& request) {
    const auto id = engine->submit(request, nullptr);
    EXPECT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    return id.status().message();
  };
  EXPECT_THAT(error(make_request(200, 1)),
              AllOf(HasSubstr("200 tokens"), HasSubstr("199"), HasSubstr("--max-model-len")));
  EXPECT_THAT(error(make_request(5000, 1)), HasSubstr("4096 positions"));
  EXPECT_THAT(error(Request{}), HasSubstr("empty"));
  Request bad = make_request(3, 1);
  bad.prompt_token_ids[1] = 61;
  EXPECT_THAT(error(bad), AllOf(HasSubstr("61"), HasSubstr("tokenizer")));
  bad.prompt_token_ids[1] = -1;
  EXPECT_THAT(error(bad), HasSubstr("-1"));
  EXPECT_THAT(error(make_request(3, -1)), HasSubstr("--max-tokens"));
  bad = make_request(3, 1);
  bad.sampling.top_p = 0;
  EXPECT_THAT(error(bad), HasSubstr("--top-p"));
  EXPECT_EQ(engine->metrics().requests_submitted, 0);
  Heard heard;
  ASSERT_TRUE(
      engine->submit(make_request(199, 9), [&](const RequestUpdate& u) { heard.hear(u); }).ok());
  engine->wait_idle();
  EXPECT_EQ(heard.token_ids.size(), 1u) << "the longest prompt that fits";
}

TEST(EngineThreadTest, AFullQueueIsRefusedAndDrains) {
  Gate gate;
  FakeEngine fake;
  fake.options.max_queued_requests = 3;
  fake.num_slots = 1;
  fake.on_step = [&](const metadata::StepView&) { gate.wait_inside(); };
  const auto engine = start(fake);
  std::atomic<int> ended{0};
  const auto count = [&](const RequestUpdate& u) { ended += u.finish != FinishReason::kNone; };
  ASSERT_TRUE(engine->submit(make_request(5, 3), count).ok());
  gate.wait_until_inside();  // the first one was admitted and stands in the queue no more
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->submit(make_request(5, 3), count).ok()) << i;
  const auto refused = engine->submit(make_request(5, 3), count);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("--max-queued-requests"));
  EXPECT_EQ(engine->metrics().requests_rejected, 1);
  gate.open();
  engine->wait_idle();
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(engine->metrics().requests_submitted, 4);
  EXPECT_TRUE(engine->submit(make_request(5, 3), count).ok()) << "there is room again";
  engine->wait_idle();
}

TEST(EngineThreadTest, ACancelDuringAStepEndsTheRequestAfterThatStep) {
  Gate gate;
  std::atomic<int> steps{0};
  FakeEngine fake;
  fake.on_step = [&](const metadata::StepView&) {
    if (++steps == 3) gate.wait_inside();
  };
  const auto engine = start(fake);
  Heard heard;
  const auto id =
      engine->submit(make_request(5, 0), [&](const RequestUpdate& u) { heard.hear(u); });
  ASSERT_TRUE(id.ok());
  gate.wait_until_inside();
  EXPECT_TRUE(engine->cancel(*id));
  EXPECT_TRUE(engine->cancel(*id)) << "it still runs";
  gate.open();
  engine->wait_idle();
  EXPECT_EQ(heard.finish, FinishReason::kCancelled);
  EXPECT_EQ(heard.token_ids.size(), 3u) << "the step under way gave its token, and no other began";
  EXPECT_FALSE(engine->cancel(*id)) << "it is done";
  EXPECT_FALSE(engine->cancel(999)) << "unknown";
  EXPECT_EQ(engine->metrics().requests_cancelled, 1);
  EXPECT_EQ(engine->metrics().num_pages_used, 0);
}

TEST(EngineThreadTest, ACallbackMayCancel) {
  const auto engine = start({});
  Heard heard;
  std::atomic<bool> cancelled_late{true};
  ASSERT_TRUE(engine
                  ->submit(make_request(5, 0),
                           [&](const RequestUpdate& u) {
                             heard.hear(u);
                             if (heard.num_updates == 3) {
                               EXPECT_TRUE(engine->cancel(u.id));
                               EXPECT_TRUE(engine->cancel(u.id)) << "it still runs";
                             }
                             if (u.finish != FinishReason::kNone) {
                               cancelled_late = engine->cancel(u.id);
                             }
                           })
                  .ok());
  engine->wait_idle();
  EXPECT_EQ(heard.finish, FinishReason::kCancelled);
  EXPECT_EQ(heard.token_ids.size(), 3u) << "no step later";
  EXPECT_FALSE(cancelled_late);
}

TEST(EngineThreadTest, CallbacksSeeMetricsThatIncludeTheirUpdate) {
  std::unique_ptr<Engine> engine = start({});
  std::atomic<int64_t> finished{-1};
  std::atomic<int64_t> used{-1};
  ASSERT_TRUE(engine
                  ->submit(make_request(5, 4),
                           [&](const RequestUpdate& u) {
                             if (u.finish == FinishReason::kNone) return;
                             finished = engine->metrics().requests_finished;
                             used = engine->metrics().num_pages_used;
                           })
                  .ok());
  engine->wait_idle();
  EXPECT_EQ(finished, 1);
  EXPECT_EQ(used, 0);
}

TEST(EngineThreadTest, ACallbackThatThrowsLosesItsRequestOnly) {
  set_log_sink([](LogLevel, std::string_view) {});
  const FakeEngine fake;
  const auto engine = start(fake);
  Heard good;
  int bad_calls = 0;
  const Request request = make_request(7, 30, 2);
  ASSERT_TRUE(engine
                  ->submit(make_request(5, 30),
                           [&](const RequestUpdate&) {
                             ++bad_calls;
                             throw std::runtime_error("mine");
                           })
                  .ok());
  ASSERT_TRUE(engine->submit(request, [&](const RequestUpdate& u) { good.hear(u); }).ok());
  engine->wait_idle();
  set_log_sink(nullptr);
  EXPECT_EQ(bad_calls, 1);
  EXPECT_EQ(good.token_ids, test::fake_answer(request, fake.model, 200));
  EXPECT_EQ(engine->metrics().requests_cancelled, 1);
}

TEST(EngineThreadTest, ABrokenStepFailsItsRequestAndTheEngineLives) {
  set_log_sink([](LogLevel, std::string_view) {});
  FakeEngine fake;
  auto broken = std::make_shared<std::atomic<bool>>(true);
  fake.on_step = [broken](const metadata::StepView&) {
    if (broken->exchange(false)) throw std::runtime_error("the kernel");
  };
  const auto engine = start(fake);
  Heard first;
  Heard second;
  ASSERT_TRUE(
      engine->submit(make_request(5, 3), [&](const RequestUpdate& u) { first.hear(u); }).ok());
  engine->wait_idle();
  ASSERT_TRUE(
      engine->submit(make_request(5, 3), [&](const RequestUpdate& u) { second.hear(u); }).ok());
  engine->wait_idle();
  set_log_sink(nullptr);
  EXPECT_EQ(first.finish, FinishReason::kError);
  EXPECT_EQ(first.status.code(), StatusCode::kInternal);
  EXPECT_EQ(second.finish, FinishReason::kLength);
  EXPECT_EQ(engine->metrics().requests_failed, 1);
}

TEST(EngineThreadTest, DestructionCancelsWhatRunsAndWaits) {
  std::vector<Heard> heard(8);
  {
    const auto engine = start({});
    for (size_t i = 0; i < heard.size(); ++i) {
      ASSERT_TRUE(engine
                      ->submit(make_request(5, 0, static_cast<uint32_t>(i)),
                               [&, i](const RequestUpdate& u) { heard[i].hear(u); })
                      .ok());
    }
  }
  for (const Heard& one : heard) {
    EXPECT_TRUE(one.finish == FinishReason::kCancelled || one.finish == FinishReason::kLength);
  }
  EXPECT_EQ(heard.back().finish, FinishReason::kCancelled);
}

// Several threads submit, cancel, read metrics and wait at once.
TEST(EngineThreadTest, ManyCallersAtOnce) {
  FakeEngine fake;
  fake.options.num_threads = 2;
  fake.options.num_pages = 16;
  fake.options.max_queued_requests = 20;
  const auto engine = start(fake);
  constexpr int kCallers = 4;
  const int requests_each = test::scaled(200);
  std::atomic<int64_t> accepted{0};
  std::atomic<int64_t> refused{0};
  std::atomic<int64_t> finals{0};
  std::atomic<int64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const MetricsSnapshot m = engine->metrics();
      if (m.requests_submitted != m.requests_finished + m.requests_cancelled + m.requests_failed +
                                      m.num_running + m.num_waiting ||
          m.num_slots_used != m.num_running) {
        ++wrong;
      }
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      std::mt19937 random(static_cast<uint32_t>(c));
      for (int i = 0; i < requests_each; ++i) {
        const Request request = make_request(1 + static_cast<int32_t>(random() % 60),
                                             1 + static_cast<int32_t>(random() % 20), random());
        auto tokens = std::make_shared<std::vector<int32_t>>();
        const auto id = engine->submit(request, [&, request, tokens](const RequestUpdate& u) {
          tokens->insert(tokens->end(), u.token_ids.begin(), u.token_ids.end());
          if (u.finish == FinishReason::kNone) return;
          ++finals;
          auto expected = test::fake_answer(request, fake.model, 200);
          if (u.finish == FinishReason::kCancelled) expected.resize(tokens->size());
          if (*tokens != expected || u.finish == FinishReason::kError) ++wrong;
        });
        if (!id.ok()) {
          ++refused;
          EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
          std::this_thread::yield();
          continue;
        }
        ++accepted;
        if (random() % 4 == 0) engine->cancel(*id);
        if (random() % 16 == 0) engine->wait_idle();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  engine->wait_idle();
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(finals, accepted);
  const MetricsSnapshot metrics = engine->metrics();
  EXPECT_EQ(metrics.requests_submitted, accepted);
  EXPECT_EQ(metrics.requests_rejected, refused);
  EXPECT_EQ(metrics.num_pages_used, 0);
  EXPECT_EQ(metrics.num_slots_used, 0);
}

TEST(EngineMetricsBoardTest, ReadersNeverSeeHalfASnapshot) {
  MetricsBoard board;
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    int64_t last = 0;
    while (!stop) {
      const MetricsSnapshot m = board.load();
      if (m.steps != m.num_running || m.steps != static_cast<int64_t>(m.step_seconds) ||
          m.steps < last) {
        ++torn;
      }
      last = m.steps;
    }
  });
  MetricsSnapshot snapshot;
  for (int i = 0; i < test::scaled(200000); ++i) {
    snapshot.num_running = i;
    snapshot.steps = i;
    snapshot.step_seconds = i;
    board.store(snapshot);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace headrace::engine
