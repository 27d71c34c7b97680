// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace {
namespace {

// About 20 µs of pause instructions: longer than the gap between two ops of a step, much shorter
// than a scheduler's time slice.
constexpr int kSpins = 2000;

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct ThreadPool::Shared {
  // A job is published by bumping `generation`; workers take ranges until none is left.
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::atomic<uint64_t> generation{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> working{0};
  int64_t count = 0;
  int64_t grain = 1;
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  std::exception_ptr error;  // guarded by mutex
  bool stop = false;         // guarded by mutex
  std::vector<std::jthread> workers;

  void run_ranges() {
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        (*body)(begin, std::min(count, begin + grain));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }

  void work() {
    uint64_t seen = 0;
    while (true) {
      for (int i = 0; i < kSpins && generation.load(std::memory_order_acquire) == seen; ++i) {
        cpu_pause();
      }
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation.load() != seen; });
        if (stop) return;
        seen = generation.load();
      }
      run_ranges();
      if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : shared_(std::make_unique<Shared>()) {
  const int threads = num_threads > 0 ? num_threads : available_cores();
  for (int i = 1; i < threads; ++i) {
    shared_->workers.emplace_back([shared = shared_.get()] { shared->work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
}

int ThreadPool::num_threads() const { return static_cast<int>(shared_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int threads = num_threads();
  grain = std::max<int64_t>(grain, 1);
  if (threads == 1 || count <= grain) {
    body(0, count);
    return;
  }
  Shared& shared = *shared_;
  // Four ranges a thread: enough to even out, few enough that taking one stays cheap.
  shared.grain = std::max(grain, (count + 4 * threads - 1) / (4 * threads));
  shared.count = count;
  shared.body = &body;
  shared.next.store(0, std::memory_order_relaxed);
  shared.working.store(threads - 1, std::memory_order_relaxed);
  {
    std::lock_guard lock(shared.mutex);
    shared.error = nullptr;
    shared.generation.fetch_add(1, std::memory_order_release);
  }
  shared.wake.notify_all();
  shared.run_ranges();
  for (int i = 0; i < kSpins && shared.working.load(std::memory_order_acquire) != 0; ++i) {
    cpu_pause();
  }
  std::unique_lock lock(shared.mutex);
  shared.done.wait(lock, [&] { return shared.working.load() == 0; });
  shared.body = nullptr;
  if (shared.error) std::rethrow_exception(shared.error);
}

}  // namespace headrace
