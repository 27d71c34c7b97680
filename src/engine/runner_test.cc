// SPDX-License-Identifier: Apache-2.0
#include "engine/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/engine_test_util.h"

namespace headrace::engine {
namespace {

class EngineRunnerTest : public ::testing::Test {
 protected:
  EngineRunnerTest() : model_(test::FakeModelOptions{}) {
    auto created = Runner::create(model_, {.max_rows = 3,
                                           .max_tokens = 64,
                                           .max_model_len = 128,
                                           .page_size = 16,
                                           .num_pages = 16,
                                           .num_slots = 3,
                                           .num_threads = 1});
    EXPECT_TRUE(created.ok()) << created.status().message();
    runner_ = std::move(*created);
  }

  RunnerRow row(int32_t begin, int32_t end) const {
    RunnerRow row;
    row.token_ids =
        std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    row.pages = pages_;
    row.context_len = begin;
    row.slot = 1;
    row.emit = true;
    return row;
  }
  int32_t best(int32_t length) const {
    const std::vector<float> logits =
        test::fake_logits(std::span(tokens_).first(static_cast<size_t>(length)), 61);
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  test::FakeModel model_;
  std::unique_ptr<Runner> runner_;
  std::vector<int32_t> tokens_ = make_prompt(200, 4);
  std::vector<int32_t> pages_ = {9, 3, 7, 1, 12, 2, 15, 4};
};

TEST_F(EngineRunnerTest, BucketsArePowersOfTwoUpToTheMaxima) {
  metadata::Limits limits;
  limits.max_rows = 6;
  limits.max_tokens = 65;
  EXPECT_EQ(bucket_of(1, 1, limits), (Bucket{1, 1}));
  EXPECT_EQ(bucket_of(2, 3, limits), (Bucket{2, 4}));
  EXPECT_EQ(bucket_of(5, 33, limits), (Bucket{6, 64}));
  EXPECT_EQ(bucket_of(6, 65, limits), (Bucket{6, 65}));
}

TEST_F(EngineRunnerTest, ReturnsOneTokenForEachRowThatEmits) {
  RunnerRow first = row(0, 64);
  first.emit = false;
  EXPECT_TRUE(runner_->run(std::vector{first}).empty());
  const auto sampled = runner_->run(std::vector{row(64, 70)});
  ASSERT_EQ(sampled.size(), 1u);
  EXPECT_EQ(sampled[0], best(70));
  EXPECT_EQ(runner_->run(std::vector{row(70, 71)})[0], best(71));
}

TEST_F(EngineRunnerTest, RefusesRowsThatBreakTheRulesAndGoesOn) {
  EXPECT_THROW(runner_->run({}), InternalError);
  EXPECT_THROW(runner_->run(std::vector<RunnerRow>(4, row(0, 1))), InternalError) << "rows";
  EXPECT_THROW(runner_->run(std::vector{row(0, 66)}), InternalError) << "tokens";
  EXPECT_THROW(runner_->run(std::vector{row(5, 5)}), InternalError) << "no tokens";
  EXPECT_THROW(runner_->run(std::vector{row(128, 129)}), InternalError) << "pages too few";
  RunnerRow other = row(0, 5);
  EXPECT_THROW(runner_->run(std::vector{row(0, 3), other}), InternalError) << "one slot twice";
  const std::vector<int32_t> null_page = {0};
  other.pages = null_page;
  EXPECT_THROW(runner_->run(std::vector{other}), InternalError) << "the null page";
  EXPECT_EQ(runner_->run(std::vector{row(0, 65)})[0], best(65));
}

TEST_F(EngineRunnerTest, CapturesEachBucketOnce) {
  EXPECT_EQ(runner_->num_captured_graphs(), 3u) << "decode graphs of 1, 2 and 3 rows";
  runner_->run(std::vector{row(0, 10)});
  EXPECT_EQ(runner_->num_captured_graphs(), 4u);
  runner_->run(std::vector{row(0, 16)});
  EXPECT_EQ(runner_->num_captured_graphs(), 4u);
  runner_->run(std::vector{row(0, 17)});
  EXPECT_EQ(runner_->num_captured_graphs(), 5u);
}

}  // namespace
}  // namespace headrace::engine
