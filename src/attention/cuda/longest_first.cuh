// SPDX-License-Identifier: Apache-2.0
// Numbers the blocks of work of some rows, with the longest first as far as that costs no sorting:
//   rows by falling class of their number of keys (two classes a doubling), in a class in the order
//   given; blocks of a row from the last to the first, since the last sees most keys.
// Found by one warp; knows nothing of what a row or a block is. Rows has, all const,
//   int32_t count()          rows
//   int32_t row(i)           the i-th
//   int32_t keys(row)        that a block of it treats, about
//   int32_t blocks(row)      of work in it
#pragma once

#include <cstdint>

namespace headrace::attention {

struct RowBlock {
  int32_t row = -1;   // −1: there is no such block
  int32_t block = 0;  // of the row
};

// Blocks must be asked for in rising order. All lanes of the warp call with the same arguments and
// get the same answers.
template <typename Rows>
class LongestFirst {
 public:
  __device__ explicit LongestFirst(const Rows& rows) : rows_(rows), num_rows_(rows.count()) {
    uint32_t low = 0;
    uint32_t high = 0;
    for (int32_t i = lane(); i < num_rows_; i += 32) {
      const int32_t number = class_of(rows_.row(i));
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

  __device__ RowBlock find(int32_t number) {
    while (number >= end_) {
      if (!next_chunk()) return {};
    }
    const int32_t in_chunk = number - begin_;
    const int owner = __ffs(__ballot_sync(kAll, in_chunk < blocks_through_lane_)) - 1;
    const int32_t blocks_through = __shfl_sync(kAll, blocks_through_lane_, owner);
    return {.row = __shfl_sync(kAll, row_, owner), .block = blocks_through - 1 - in_chunk};
  }

 private:
  static constexpr uint32_t kAll = 0xFFFFFFFF;
  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }

  __device__ int32_t class_of(int32_t row) const {
    const int32_t keys = rows_.keys(row);
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
      row_ = rows_.row(chunk_ + lane());
      if (class_of(row_) == class_) blocks = rows_.blocks(row_);
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

  Rows rows_;
  int32_t num_rows_;
  uint64_t classes_ = 0;  // classes not yet begun
  int32_t class_ = 0;
  int32_t chunk_ = 0;                // the 32 rows at hand
  int32_t begin_ = 0;                // blocks before them
  int32_t end_ = 0;                  // and through them
  int32_t row_ = -1;                 // the lane's row
  int32_t blocks_through_lane_ = 0;  // of the chunk's rows up to the lane's
};

}  // namespace headrace::attention
