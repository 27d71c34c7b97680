// SPDX-License-Identifier: Apache-2.0
// The engine thread puts its metrics up, anybody reads a consistent copy, nobody takes a lock: a
// step must not wait for a reader. One writer.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "headrace/metrics.h"

namespace headrace::engine {

class MetricsBoard {
 public:
  void store(const MetricsSnapshot& snapshot) {
    const auto words = std::bit_cast<Words>(snapshot);
    // Odd while the words change. A reader that sees a new word sees the odd version as well, for
    // the word was released after it.
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  MetricsSnapshot load() const {
    Words words;
    uint64_t before = 0;
    uint64_t after = 0;
    do {
      before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      after = version_.load(std::memory_order_relaxed);
    } while (before != after || before % 2 == 1);
    return std::bit_cast<MetricsSnapshot>(words);
  }

 private:
  static constexpr size_t kWords = sizeof(MetricsSnapshot) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;

  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace headrace::engine
