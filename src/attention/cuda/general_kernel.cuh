// SPDX-License-Identifier: Apache-2.0
// General attention: tensor cores as every GPU since 8.0 has them, rows of every kind, any page
// size, strides and alignment,
//   o = softmax(scale · q Kᵀ [soft-capped] [+ sink]) V.
//
// Blocks of warps take items (kQueries queries of one row and key head, general_work.cuh) from
// a counter until none is left; warp w has queries w · kWarpQueries and on. Tiles of kKeys keys go
// from the last to the first, so that causal masks fall on the first ones; while one is at work the
// next is on its way. Two blocks share a multiprocessor: one's softmax fills the other's gaps. A
// long row of one token is not split over blocks.
#pragma once

#include <cstdint>

#include "attention/cuda/general_compute.cuh"
#include "attention/cuda/general_load.cuh"
#include "attention/cuda/general_params.cuh"
#include "attention/cuda/general_traits.cuh"
#include "attention/cuda/general_work.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

// Zero out, lse −inf.
template <typename Io>
__device__ __forceinline__ void clear_padding_tokens(const AttentionParams& params) {
  const int64_t width = int64_t{params.heads.num_q_heads} * params.heads.head_dim;
  for (int64_t token = params.step.counts->num_tokens + static_cast<int64_t>(blockIdx.x);
       token < params.step.limits.max_tokens; token += gridDim.x) {
    Io* out = static_cast<Io*>(params.out) + token * params.out_stride;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) out[i] = static_cast<Io>(0.0f);
    if (params.lse == nullptr) continue;
    float* lse = params.lse + token * params.heads.num_q_heads;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < params.heads.num_q_heads;
         i += static_cast<int32_t>(blockDim.x)) {
      lse[i] = -INFINITY;
    }
  }
}

template <typename Traits>
__device__ __forceinline__ void attend(const GeneralParams& params, const GeneralItem& item,
                                       GeneralShared<Traits>& shared) {
  const int32_t first_position = item.context_len + params.by_group.quotient(item.first_query);
  const int32_t last_position =
      item.context_len + params.by_group.quotient(item.first_query + item.num_queries - 1);
  const int32_t first_key = params.window > 0 ? max(0, first_position - params.window + 1) : 0;
  const int32_t begin = first_key / Traits::kKeys;
  const int32_t end = last_position / Traits::kKeys + 1;
  // Tiles of which every query sees every key.
  const int32_t whole_end = (first_position + 1) / Traits::kKeys;
  const int32_t whole_begin =
      params.window > 0 ? max(0, last_position - params.window + Traits::kKeys) / Traits::kKeys : 0;

  GeneralLoader<Traits> loader(params, shared, item, first_key);
  loader.hand_on(end - 1, loader.look_up(end - 1));
  if (end - 2 >= begin) loader.hand_on(end - 2, loader.look_up(end - 2));
  load_queries(params, item, shared);
  GeneralCompute<Traits> compute(params, shared, item);
  __syncthreads();
  loader.start(end - 1, 0);
  int stage = 0;
  for (int32_t tile = end - 1; tile >= begin; --tile) {
    ptx::async_copies_wait_all();
    __syncthreads();
    if constexpr (Traits::kIsFp8) loader.finish(tile);
    if (tile > begin) loader.start(tile - 1, stage ^ 1);
    if constexpr (Traits::kIsFp8) __syncthreads();
    const int32_t page = tile - 2 >= begin ? loader.look_up(tile - 2) : -1;
    compute.run(tile, Traits::kIsFp8 ? 0 : stage, tile >= whole_begin && tile < whole_end);
    if (tile - 2 >= begin) loader.hand_on(tile - 2, page);
    stage ^= 1;
  }
  compute.store();
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kBlocksPerMultiprocessor)
    general_kernel(const __grid_constant__ GeneralParams params) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<GeneralShared<Traits>*>(memory);
  const bool finds_work = threadIdx.x < 32;
  auto* work = &shared.work[threadIdx.x % 32];
  if (params.rows != RowSet::kPrefill) {
    clear_padding_tokens<typename Traits::Io>(params.attention);
  }
  if (finds_work) begin_general_work(params, work);
  for (;;) {
    if (finds_work) {
      int32_t number = 0;
      if (threadIdx.x == 0) number = atomicAdd(&params.queue->next, 1);
      number = __shfl_sync(0xFFFFFFFF, number, 0);
      const GeneralItem item = find_general_item(params, work, number);
      if (threadIdx.x == 0) shared.item = item;
    }
    __syncthreads();
    const GeneralItem item = shared.item;
    if (item.row < 0) break;
    attend(params, item, shared);
    __syncthreads();
  }
  // The last block to find the queue empty makes it ready for the next launch.
  if (threadIdx.x == 0 &&
      atomicAdd(&params.queue->finished, 1) == static_cast<int32_t>(gridDim.x) - 1) {
    params.queue->next = 0;
    params.queue->finished = 0;
  }
}

}  // namespace headrace::attention
