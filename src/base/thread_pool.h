// SPDX-License-Identifier: Apache-2.0
// A small pool for the CPU kernels. Workers spin for a short while after a job and then park, so
// that an idle engine costs nothing and a busy machine is not fought over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace headrace {

class ThreadPool {
 public:
  // `num_threads` counts the calling thread; 0 = the cores this process may use.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(begin, end) on disjoint ranges that cover [0, count), in any order, from several
  // threads, and returns when all are done. Ranges have at least `grain` items but for the last.
  // What is computed for an item must not depend on the range it comes in: that is what makes
  // results equal for every number of threads. One caller at a time; not to be nested.
  // The first exception of a body is thrown again here.
  void parallel_for(int64_t count, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// Cores that this process may run on, at least 1.
int available_cores();

}  // namespace headrace
