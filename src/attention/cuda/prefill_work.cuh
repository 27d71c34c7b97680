// SPDX-License-Identifier: Apache-2.0
// Which piece of prefill work has which number: pieces are (row, block of queries, head), numbered
// with the longest first as far as that costs no sorting:
//   rows by falling class of their number of keys (two classes a doubling), in a class in row
//   order; blocks of a row from the last to the first, since the last sees most keys; heads
//   innermost, so that the blocks at work at the same time share keys.
// Found by one warp from the step's arrays; knows nothing of tiles in shared memory.
#pragma once

#include <cstdint>

#include "attention/cuda/prefill_params.cuh"

namespace headrace::attention {

struct PrefillItem {
  int32_t row = -1;            // −1: there is no such item
  int32_t head = 0;            // query head
  int32_t first_token = 0;     // of the block, index in the step
  int32_t num_queries = 0;     // of the block, 1…kBlockQueries
  int32_t first_position = 0;  // of the block's first query in the sequence
  int32_t seq_len = 0;
};

// Items must be asked for in rising order. All lanes of the warp call with the same arguments and
// get the same answers.
template <int kBlockQueries>
class PrefillWork {
 public:
  __device__ explicit PrefillWork(const PrefillKernelParams& params)
      : params_(params), num_rows_(params.counts->num_prefill_rows) {
    uint32_t low = 0;
    uint32_t high = 0;
    for (int32_t i = lane(); i < num_rows_; i += 32) {
      const int32_t number = class_of(params_.prefill_rows[i]);
      if (number < 32) {
        low |= 1u << number;
      } else {
        high |= 1u << (number - 32);
      }
    }
    low = __reduce_or_sync(kAll, low);
    high = __reduce_or_sync(kAll, high);
    classes_ = uint64_t{high} << 32 | low;
    chunk_ = num_rows_;  // before the first chunk of the first class
  }

  __device__ PrefillItem find(int32_t number) {
    PrefillItem item;
    const int32_t block = number / params_.num_q_heads;
    while (block >= end_) {
      if (!next_chunk()) return item;
    }
    const int32_t in_chunk = block - begin_;
    const int owner = __ffs(__ballot_sync(kAll, in_chunk < blocks_through_lane_)) - 1;
    item.row = __shfl_sync(kAll, row_, owner);
    const int32_t blocks_through = __shfl_sync(kAll, blocks_through_lane_, owner);
    const int32_t query_len = params_.query_len[item.row];
    const int32_t context_len = params_.context_len[item.row];
    const int32_t first_query = (blocks_through - 1 - in_chunk) * kBlockQueries;
    item.head = number - block * params_.num_q_heads;
    item.first_token = params_.query_start[item.row] + first_query;
    item.num_queries = min(kBlockQueries, query_len - first_query);
    item.first_position = context_len + first_query;
    item.seq_len = context_len + query_len;
    return item;
  }

 private:
  static constexpr uint32_t kAll = 0xFFFFFFFF;
  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }

  __device__ int32_t class_of(int32_t row) const {
    int32_t keys = params_.context_len[row] + params_.query_len[row];
    if (params_.window > 0) keys = min(keys, params_.window + kBlockQueries);
    const int32_t doublings = 31 - __clz(keys | 1);
    return 2 * doublings + (doublings > 0 ? (keys >> (doublings - 1)) & 1 : 0);
  }

  // Goes on to the next 32 rows, in this class or the next lower one.
  __device__ bool next_chunk() {
    chunk_ += 32;
    if (chunk_ >= num_rows_) {
      if (classes_ == 0) return false;
      class_ = 63 - __clzll(static_cast<int64_t>(classes_));
      classes_ &= ~(uint64_t{1} << class_);
      chunk_ = 0;
    }
    row_ = -1;
    int32_t blocks = 0;
    if (chunk_ + lane() < num_rows_) {
      row_ = params_.prefill_rows[chunk_ + lane()];
      if (class_of(row_) == class_) {
        blocks = (params_.query_len[row_] + kBlockQueries - 1) / kBlockQueries;
      }
    }
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(kAll, blocks, distance);
      if (lane() >= distance) blocks += other;
    }
    blocks_through_lane_ = blocks;
    begin_ = end_;
    end_ += __shfl_sync(kAll, blocks, 31);
    return true;
  }

  const PrefillKernelParams& params_;
  int32_t num_rows_;
  uint64_t classes_ = 0;  // classes not yet begun
  int32_t class_ = 0;
  int32_t chunk_ = 0;                // the 32 prefill rows at hand
  int32_t begin_ = 0;                // blocks before them
  int32_t end_ = 0;                  // and through them
  int32_t row_ = -1;                 // the lane's row
  int32_t blocks_through_lane_ = 0;  // of the chunk's rows up to the lane's
};

}  // namespace headrace::attention
