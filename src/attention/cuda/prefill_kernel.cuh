// SPDX-License-Identifier: Apache-2.0
// Prefill attention on Hopper: causal softmax attention of a row's new tokens over its pages,
//   o = softmax(scale · q Kᵀ [soft-capped] [+ sink]) V.
//
// A block of threads takes items (64 queries a warpgroup, of one row and one query head) until none
// is left. One producer warp finds the items and lets the copy engine fill rings of K and V tiles;
// the consumer warpgroups keep scores, weights and output in registers:
//   S = Q Kᵀ of tile j and O += P V of tile j + 1 run on the tensor cores while the warpgroup makes
//   the softmax of tile j; left to themselves the warpgroups fall out of step, so that one's
//   products fill another's gaps (strict turns by named barriers measured 1.5 to 8 % slower).
// Tiles go from the last key to the first, so that causal masks fall on the first ones.
//
// Keys past the sequence's end are masked by selection; V rows there are set to zero, since the
// cache may hold NaN and 0 · NaN is NaN.
#pragma once

#include <cstdint>

#include "attention/cuda/prefill_consumer.cuh"
#include "attention/cuda/prefill_params.cuh"
#include "attention/cuda/prefill_producer.cuh"
#include "attention/cuda/prefill_tiles.cuh"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/wgmma.cuh"

namespace headrace::attention {

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, 1)
    prefill_kernel(const __grid_constant__ PrefillKernelParams params) {
  extern __shared__ uint8_t memory[];
  using Shared = PrefillShared<Traits>;
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&params.query_map);
    ptx::prefetch_tensor_map(&params.key_map);
    ptx::prefetch_tensor_map(&params.value_map);
    for (int i = 0; i < Traits::kStages; ++i) {
      ptx::mbarrier_init(&shared.keys_full[i], 1);
      ptx::mbarrier_init(&shared.keys_empty[i], Traits::kConsumers);
      ptx::mbarrier_init(&shared.values_full[i], 1);
      ptx::mbarrier_init(&shared.values_empty[i], Traits::kConsumers);
    }
    ptx::mbarrier_init(&shared.item_full, 1);
    ptx::mbarrier_init(&shared.item_empty, Traits::kConsumers * 128);  // every consumer thread
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_dependencies();

  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  if (warpgroup == 0) {
    wgmma::give_registers<Traits::kProducerRegisters>();
    if (threadIdx.x < 32) PrefillProducer<Traits>(params, shared).run();
  } else {
    wgmma::take_registers<Traits::kConsumerRegisters>();
    PrefillConsumer<Traits>(params, shared, warpgroup - 1).run();
  }
}

}  // namespace headrace::attention
