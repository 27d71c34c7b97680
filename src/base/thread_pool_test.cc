// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace headrace {
namespace {

TEST(ThreadPool, CoversEveryItemOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 8, 2000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, ManySmallJobsInARow) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int job = 0; job < 2000; ++job) {
    pool.parallel_for(3, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  }
  EXPECT_EQ(sum.load(), 6000);
}

TEST(ThreadPool, AnExceptionReachesTheCaller) {
  ThreadPool pool(2);
  const auto failing = [](int64_t begin, int64_t) {
    if (begin >= 0) throw std::runtime_error("no");
  };
  EXPECT_THROW(pool.parallel_for(100, 1, failing), std::runtime_error);
  std::atomic<int> ran{0};
  pool.parallel_for(100, 1,
                    [&](int64_t begin, int64_t end) { ran += static_cast<int>(end - begin); });
  EXPECT_EQ(ran.load(), 100);
}

}  // namespace
}  // namespace headrace
