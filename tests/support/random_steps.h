// SPDX-License-Identifier: Apache-2.0
// Random steps for property tests of the metadata, on the CPU and on the GPU: rows of all kinds,
// lengths that often lie beside an edge, garbage wherever the build must not look. Knows nothing of
// what is derived from them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "metadata/arena.h"

namespace headrace::test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high].
  int32_t in(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(engine_() % static_cast<uint64_t>(int64_t{high} - low + 1));
  }
  bool one_in(int32_t n) { return in(1, n) == 1; }
  int32_t bits() { return static_cast<int32_t>(engine_()); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[in(0, static_cast<int32_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

metadata::Limits random_limits(Random& random);

// Writes every input array of the step over its full size. The rows satisfy check_rows().
void random_step(Random& random, const metadata::Limits& limits, const metadata::StepInput& input);

// Limits and rows of the step that the arena holds, for a failure message.
std::string describe_step(const metadata::StepArena& arena);

}  // namespace headrace::test
