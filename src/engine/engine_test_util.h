// SPDX-License-Identifier: Apache-2.0
// What the engine's tests share: a loop over the fake model that is driven step by step, what its
// callbacks heard, and poison for freed memory.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/loop.h"
#include "engine/runner.h"
#include "tests/support/fake_model.h"

namespace headrace::engine {

// All ones: NaN in every floating type, and no value that the fake model writes.
inline void poison(void* data, int64_t size_bytes) {
  std::memset(data, 0xFF, static_cast<size_t>(size_bytes));
}

// Fills the whole cache with poison, and from now on every page and slot when it is freed.
inline void poison_freed(const model::Model& model, EngineLoop& loop, Runner& runner) {
  model::Cache& cache = runner.cache();
  const int64_t page_bytes = model.page_bytes(cache.spec);
  const int64_t slot_bytes = model.slot_bytes(cache.spec);
  poison(cache.pages.data(), static_cast<int64_t>(cache.pages.size_bytes()));
  poison(cache.slots.data(), static_cast<int64_t>(cache.slots.size_bytes()));
  loop.pages().set_freed_hook([&cache, page_bytes](std::span<const int32_t> pages) {
    for (const int32_t page : pages) poison(cache.pages.as<char>() + page * page_bytes, page_bytes);
  });
  loop.slots().set_freed_hook([&cache, slot_bytes](int32_t slot) {
    poison(cache.slots.as<char>() + slot * slot_bytes, slot_bytes);
  });
}

// What one request's callback heard.
struct Heard {
  std::vector<int32_t> token_ids;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  Status status;
  RequestTimings timings;
  int num_updates = 0;

  void hear(const RequestUpdate& update) {
    EXPECT_EQ(finish, FinishReason::kNone) << "an update after the last one";
    token_ids.insert(token_ids.end(), update.token_ids.begin(), update.token_ids.end());
    EXPECT_EQ(update.num_generated_tokens, static_cast<int32_t>(token_ids.size()));
    text += update.text;
    finish = update.finish;
    status = update.status;
    timings = update.timings;
    ++num_updates;
  }
};

struct LoopOptions {
  test::FakeModelOptions model = {};
  int32_t max_rows = 4;
  int32_t max_tokens = 64;
  int32_t max_model_len = 512;
  int32_t page_size = 16;
  int32_t num_pages = 64;
  int32_t num_slots = 4;
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
};

class LoopHarness {
 public:
  explicit LoopHarness(LoopOptions options_in)
      : options(std::move(options_in)), model(options.model) {
    auto created = Runner::create(model, {.max_rows = options.max_rows,
                                          .max_tokens = options.max_tokens,
                                          .max_model_len = options.max_model_len,
                                          .page_size = options.page_size,
                                          .num_pages = options.num_pages,
                                          .num_slots = options.num_slots,
                                          .num_threads = 1});
    EXPECT_TRUE(created.ok()) << created.status().message();
    runner = std::move(*created);
    loop = std::make_unique<EngineLoop>(
        *runner,
        SchedulerLimits{.max_rows = options.max_rows,
                        .max_tokens = options.max_tokens,
                        .page_size = options.page_size},
        options.model.vocab_size, options.num_pages, options.num_slots,
        LoopHooks{.left_queue = [this] { ++num_left_queue; }, .publish = nullptr});
    poison_freed(model, *loop, *runner);
  }

  RequestId add(const Request& request) {
    const RequestId id = next_id++;
    requests[id] = request;
    loop->add(std::make_unique<LiveRequest>(
        Sequence(id, request, options.model.eos_token_ids, options.max_model_len),
        [this, id](const RequestUpdate& update) {
          EXPECT_EQ(update.id, id);
          heard[id].hear(update);
        },
        options.tokenizer));
    return id;
  }

  void run_to_end(int most_steps = 100000) {
    for (int i = 0; loop->has_work(); ++i) {
      ASSERT_LT(i, most_steps) << "the loop does not end";
      loop->step();
    }
  }

  std::vector<int32_t> expected(RequestId id) const {
    return test::fake_answer(requests.at(id), options.model, options.max_model_len);
  }

  // The pools are whole and the counters add up.
  void expect_idle() const {
    const MetricsSnapshot metrics = loop->metrics();
    EXPECT_EQ(metrics.num_running, 0);
    EXPECT_EQ(metrics.num_waiting, 0);
    EXPECT_EQ(metrics.num_pages_used, 0);
    EXPECT_EQ(metrics.num_slots_used, 0);
    EXPECT_EQ(metrics.requests_submitted, static_cast<int64_t>(requests.size()));
    EXPECT_EQ(metrics.requests_submitted,
              metrics.requests_finished + metrics.requests_cancelled + metrics.requests_failed);
    EXPECT_EQ(num_left_queue, static_cast<int>(requests.size()));
    int64_t generated = 0;
    for (const auto& [id, what] : heard) generated += static_cast<int64_t>(what.token_ids.size());
    EXPECT_EQ(metrics.generated_tokens, generated);
  }

  LoopOptions options;
  test::FakeModel model;
  std::unique_ptr<Runner> runner;
  std::unique_ptr<EngineLoop> loop;
  std::map<RequestId, Request> requests;
  std::map<RequestId, Heard> heard;
  RequestId next_id = 1;
  int num_left_queue = 0;
};

// `length` tokens that differ from seed to seed.
inline std::vector<int32_t> make_prompt(int32_t length, uint32_t seed, int32_t vocab_size = 61) {
  std::vector<int32_t> tokens;
  uint32_t x = seed * 2654435761u + 12345u;
  for (int32_t i = 0; i < length; ++i) {
    x = x * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab_size)));
  }
  return tokens;
}

}  // namespace headrace::engine
