// SPDX-License-Identifier: Apache-2.0
// Division of positions by a number that is known when a kernel is launched: a product and a shift
// where the GPU's own division takes twenty instructions.
#pragma once

#include <cstdint>

#include "metadata/host_device.h"

namespace headrace::metadata {

// n / divisor for 0 ≤ n < 2³¹, exact: with l = ceil(log2 divisor) and m = floor(2^(31+l) / divisor)
// + 1 it is (n · m) >> (31 + l) (Granlund and Montgomery, "Division by invariant integers using
// multiplication", theorem 4.2).
struct FastDivisor {
  uint32_t divisor = 1;
  uint32_t multiplier = 0x80000001u;
  uint32_t shift = 31;

  FastDivisor() = default;
  explicit constexpr FastDivisor(int32_t by) : divisor(static_cast<uint32_t>(by)) {
    uint32_t log2 = 0;
    while ((uint64_t{1} << log2) < divisor) ++log2;
    shift = 31 + log2;
    multiplier = static_cast<uint32_t>((uint64_t{1} << shift) / divisor + 1);
  }

  HEADRACE_HOST_DEVICE constexpr int32_t quotient(int32_t n) const {
    return static_cast<int32_t>((static_cast<uint64_t>(n) * multiplier) >> shift);
  }
  HEADRACE_HOST_DEVICE constexpr int32_t remainder(int32_t n) const {
    return n - quotient(n) * static_cast<int32_t>(divisor);
  }
};

}  // namespace headrace::metadata
