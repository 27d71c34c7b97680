// SPDX-License-Identifier: Apache-2.0
// How a worker of a split begins, loaded by a kernel in one round.
#pragma once

#include <cstdint>

#include "metadata/split.h"

namespace headrace::metadata {

__device__ __forceinline__ SplitWorker load_worker(const SplitWorker* from) {
  static_assert(sizeof(SplitWorker) == 4 * sizeof(int4));
  union {
    int4 parts[4];
    SplitWorker worker;
  } loaded{};
#pragma unroll
  for (int i = 0; i < 4; ++i) loaded.parts[i] = reinterpret_cast<const int4*>(from)[i];
  return loaded.worker;
}

}  // namespace headrace::metadata
