// SPDX-License-Identifier: Apache-2.0
// The warp that finds the work of a block of threads and lets the copy engine bring Q, K and V.
// Knows nothing of what is computed with them.
#pragma once

#include <cstdint>

#include "attention/cuda/prefill_params.cuh"
#include "attention/cuda/prefill_tiles.cuh"
#include "attention/cuda/prefill_work.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

// One warp. Lane i copies box i of a tile.
template <typename Traits>
class PrefillProducer {
 public:
  using Shared = PrefillShared<Traits>;
  __device__ __forceinline__ PrefillProducer(const PrefillKernelParams& params, Shared& shared)
      : params_(params), shared_(shared), num_boxes_(Traits::kKeys / params.box_tokens) {}

  __device__ __forceinline__ void run() {
    PrefillWork<Traits::kBlockQueries> work(params_);
    uint32_t item_phase = 1;  // the item's place is empty at first
    for (;;) {
      const PrefillItem item = work.find(take());
      if (item.row < 0) break;
      begin(item);
      const int32_t end = tiles_end<Traits>(item);
      const int32_t first = tiles_begin<Traits>(item, params_.window);
      look_up(end - 1);
      place_keys();
      hand_over(item, item_phase);
      item_phase ^= 1;
      for (int32_t tile = end - 1; tile > first; --tile) {
        place_values();
        look_up(tile - 1);
        place_keys();
      }
      place_values();
    }
    ptx::mbarrier_wait(&shared_.item_empty, item_phase);
    if (lane() == 0) {
      shared_.item.row = -1;
      ptx::mbarrier_arrive(&shared_.item_full);
      leave_queue();
    }
  }

 private:
  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }

  __device__ __forceinline__ int32_t take() {
    int32_t number = 0;
    if (lane() == 0) number = atomicAdd(&params_.queue->next, 1);
    return __shfl_sync(0xFFFFFFFF, number, 0);
  }
  // The last block to find the queue empty makes it ready for the next launch.
  __device__ __forceinline__ void leave_queue() {
    if (atomicAdd(&params_.queue->finished, 1) == static_cast<int32_t>(gridDim.x) - 1) {
      params_.queue->next = 0;
      params_.queue->finished = 0;
    }
  }

  __device__ __forceinline__ void begin(const PrefillItem& item) {
    pages_ = params_.page_table + int64_t{item.row} * params_.max_pages_per_row;
    seq_len_ = item.seq_len;
    slice_ = item.head / params_.group_size * params_.slices_per_head;
  }
  // Page and piece of 8 tokens of the lane's box.
  __device__ __forceinline__ void look_up(int32_t tile) {
    if (lane() >= num_boxes_) return;
    const int32_t token = tile * Traits::kKeys + lane() * params_.box_tokens;
    const int32_t index = token / params_.page_size;
    piece_ = (token - index * params_.page_size) / 8;
    page_ = token < seq_len_ ? pages_[index] : params_.num_pages;
  }
  __device__ __forceinline__ void copy(uint8_t* tile, const CUtensorMap& map, uint64_t* full) {
    if (lane() == 0) ptx::mbarrier_arrive_expect_bytes(full, Traits::kTileBytes);
    __syncwarp();
    if (lane() < num_boxes_) {
      uint8_t* to = tile + lane() * params_.box_tokens * Traits::kHeadDim * 2;
      ptx::tensor_copy_5d(to, &map, full, 0, 0, slice_, piece_, page_);
    }
    __syncwarp();
  }
  __device__ __forceinline__ void place_keys() {
    ptx::mbarrier_wait(&shared_.keys_empty[keys_.stage], keys_.phase ^ 1);
    copy(shared_.keys[keys_.stage], params_.key_map, &shared_.keys_full[keys_.stage]);
    keys_.advance();
  }
  __device__ __forceinline__ void place_values() {
    ptx::mbarrier_wait(&shared_.values_empty[values_.stage], values_.phase ^ 1);
    copy(shared_.values[values_.stage], params_.value_map, &shared_.values_full[values_.stage]);
    values_.advance();
  }
  __device__ __forceinline__ void hand_over(const PrefillItem& item, uint32_t phase) {
    ptx::mbarrier_wait(&shared_.item_empty, phase);
    if (lane() == 0) {
      shared_.item = item;
      ptx::mbarrier_arrive_expect_bytes(&shared_.item_full,
                                        Traits::kConsumers * Traits::kQueryBytes);
      for (int i = 0; i < Traits::kConsumers; ++i) {
        ptx::tensor_copy_5d(shared_.query[i], &params_.query_map, &shared_.item_full, 0,
                            item.first_token + i * Traits::kWarpgroupQueries, 0, item.head, 0);
      }
    }
    __syncwarp();
  }

  const PrefillKernelParams& params_;
  Shared& shared_;
  int32_t num_boxes_;
  RingPlace<Traits::kStages> keys_;
  RingPlace<Traits::kStages> values_;
  const int32_t* pages_ = nullptr;
  int32_t seq_len_ = 0;
  int32_t slice_ = 0;
  int32_t page_ = 0;
  int32_t piece_ = 0;
};

}  // namespace headrace::attention
