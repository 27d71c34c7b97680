// SPDX-License-Identifier: Apache-2.0
// Where a worker begins in the split of a step, found by a whole warp in one or two rounds of
// loads: a thread that searches alone waits for one load after another. Same answers as index.h's
// owner_of.
#pragma once

#include <cstdint>

#include "metadata/split.h"

namespace headrace::metadata {

// The largest i with starts[i] ≤ value in starts[0…n], where starts[0] ≤ value < starts[n]. All
// lanes call it with the same arguments.
__device__ __forceinline__ int32_t warp_owner_of(const int32_t* starts, int32_t n, int32_t value) {
  constexpr int32_t kLanes = 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  int32_t low = 0;
  int32_t high = n;
#pragma unroll 1
  while (high - low > 1) {
    const int32_t stride = ceil_div(high - low, kLanes);
    const int32_t i = low + (lane + 1) * stride;
    const bool reached = i < high && starts[i] <= value;
    low += stride * __popc(__ballot_sync(0xffffffffu, reached));
    high = min_i32(high, low + stride);
  }
  return low;
}

// Where `worker` begins: start of a SplitWalk. All lanes of the warp get the same.
__device__ __forceinline__ SplitStart warp_split_start(const SplitView& split, int32_t worker) {
  constexpr int32_t kLanes = 32;
  constexpr int32_t kHeld = 8;  // entries a lane loads at once
  const auto lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t n = split.num_rows;
  SplitStart start{.num_units = split.unit_start[n]};
  if (n >= kLanes * kHeld) {
    const int32_t active = active_workers(split.shape, start.num_units);
    const int32_t unit = worker_begin(start.num_units, active, worker);
    if (unit == start.num_units) return start;
    start.row = warp_owner_of(split.unit_start, n, unit);
    start.row_begin = split.unit_start[start.row];
    start.row_end = split.unit_start[start.row + 1];
    return start;
  }
  // All entries at once, the total among them: one round.
  int32_t held[kHeld];
#pragma unroll
  for (int32_t i = 0; i < kHeld; ++i) {
    const int32_t at = i * kLanes + lane;
    held[i] = at <= n ? split.unit_start[at] : INT32_MAX;
  }
  const int32_t active = active_workers(split.shape, start.num_units);
  const int32_t unit = worker_begin(start.num_units, active, worker);
  if (unit == start.num_units) return start;
  int32_t reached = 0;  // entries up to the worker's first unit
  int32_t below = 0;
  int32_t above = INT32_MAX;
#pragma unroll
  for (int32_t i = 0; i < kHeld; ++i) {
    reached += __popc(__ballot_sync(0xffffffffu, held[i] <= unit));
    if (held[i] <= unit) {
      below = max_i32(below, held[i]);
    } else {
      above = min_i32(above, held[i]);
    }
  }
  start.row = reached - 1;
  start.row_begin = static_cast<int32_t>(__reduce_max_sync(0xffffffffu, below));
  start.row_end = static_cast<int32_t>(__reduce_min_sync(0xffffffffu, above));
  return start;
}

}  // namespace headrace::metadata
