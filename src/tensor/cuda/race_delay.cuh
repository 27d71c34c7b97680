// SPDX-License-Identifier: Apache-2.0
// For tests of kernels that may overlap (programmatic dependent launch): holds warps back before
// their last store, at random, so that whoever reads too early reads what was there before.
#pragma once

#include <cstdint>

namespace headrace {

__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// One warp in eight waits 50 µs. Nothing where kDelays is false, as in every kernel that is not a
// test's.
template <bool kDelays>
__device__ __forceinline__ void race_delay() {
  if constexpr (kDelays) {
    const uint64_t start = global_nanoseconds();
    uint64_t bits = start / 32 + (uint64_t{blockIdx.y} * 4096 + blockIdx.x) * 64 + threadIdx.x / 32;
    bits = (bits ^ (bits >> 31)) * 0xBF58476D1CE4E5B9ull;
    if ((__shfl_sync(__activemask(), bits >> 60, __ffs(__activemask()) - 1) & 7) != 0) return;
    while (global_nanoseconds() - start < 50000) __nanosleep(500);
  }
}

}  // namespace headrace
