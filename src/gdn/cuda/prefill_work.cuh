// SPDX-License-Identifier: Apache-2.0
// Work of the scan kernel: one row, one value head, and all or half of its value columns; found
// alike by producer and consumers. Knows nothing of tiles.
#pragma once

#include <cstdint>

#include "gdn/cuda/prefill_config.h"
#include "gdn/cuda/prefill_params.cuh"

namespace headrace::gdn {

struct ScanItem {
  int32_t row = 0;
  int32_t head = 0;         // value head
  int32_t first_slice = 0;  // of 64 value columns
  int32_t first_chunk = 0;
  int32_t num_chunks = 0;
};

// Items of a row follow each other, those of one key head side by side.
class ScanWork {
 public:
  __device__ __forceinline__ ScanWork(const PrefillKernelParams& params, int32_t num_blocks)
      : params_(params) {
    const int32_t heads = params.step.counts->num_prefill_rows * params.num_v_heads;
    parts_ = halve_scan_items(heads, num_blocks) ? 2 : 1;
    num_items_ = heads * parts_;
  }

  __device__ __forceinline__ int32_t num_items() const { return num_items_; }
  // Of 64 value columns, in an item.
  __device__ __forceinline__ int32_t slices() const { return 2 / parts_; }

  __device__ __forceinline__ ScanItem item(int32_t number) const {
    const int32_t per_row = params_.num_v_heads * parts_;
    const int32_t in_row = number % per_row;
    ScanItem item;
    item.row = params_.step.prefill_rows[number / per_row];
    item.head = in_row / parts_;
    item.first_slice = in_row % parts_;
    item.first_chunk = params_.step.chunk_start[item.row];
    item.num_chunks = params_.step.chunk_start[item.row + 1] - item.first_chunk;
    return item;
  }

 private:
  const PrefillKernelParams& params_;
  int32_t parts_ = 1;
  int32_t num_items_ = 0;
};

}  // namespace headrace::gdn
