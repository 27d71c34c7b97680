// SPDX-License-Identifier: Apache-2.0
// Decode and verify attention over pages. Grid [W, Hkv]: block (w, h) computes the pieces that the
// split of the step gives worker w, for key head h. A producer fills a ring in shared memory with
// tiles of keys and values, four warps compute (decode_consumer.cuh); results of rows that one
// worker has whole are final, the others are merged by combine_kernel.cuh. Nothing here is planned:
// where a worker begins, and in which pages the keys lie, is read from the step's metadata.
#pragma once

#include "attention/cuda/decode_consumer.cuh"
#include "attention/cuda/decode_params.h"
#include "attention/cuda/decode_producer.cuh"
#include "attention/cuda/decode_traits.h"
#include "metadata/cuda/split_worker.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, 2)
    decode_kernel(const __grid_constant__ DecodeParams params,
                  const __grid_constant__ KvTensorMaps maps) {
  extern __shared__ __align__(1024) char shared[];
  char* fixed = shared + Traits::kSlots * Traits::kSlotBytes;
  auto* queries = reinterpret_cast<typename Traits::Mma*>(fixed);
  auto* weights = reinterpret_cast<typename Traits::Mma*>(fixed + Traits::kQueryBytes);
  auto* maxima = reinterpret_cast<float*>(fixed + Traits::kQueryBytes + Traits::kWeightBytes);
  auto* barriers = reinterpret_cast<uint64_t*>(fixed + Traits::kQueryBytes + Traits::kWeightBytes +
                                               Traits::kReduceBytes);
  const Ring<Traits> ring{shared, barriers, barriers + Traits::kSlots};
  uint64_t* task_barriers = barriers + 2 * Traits::kSlots;
  const TaskQueue queue{reinterpret_cast<PieceTask*>(task_barriers + 2 * kTasks), task_barriers,
                        task_barriers + kTasks};
  static_assert((2 * Traits::kSlots + 2 * kTasks) * sizeof(uint64_t) + kTasks * sizeof(PieceTask) <=
                512);

  const auto worker = static_cast<int32_t>(blockIdx.x);
  const auto kv_head = static_cast<int32_t>(blockIdx.y);
  if (Traits::kLoader == KvLoader::kTensorCopy && threadIdx.x == Traits::kConsumers) {
    ptx::prefetch_tensor_map(&maps.keys);
    ptx::prefetch_tensor_map(&maps.values);
  }
  if (threadIdx.x == 0) {
    constexpr bool kByThreads = Traits::kLoader == KvLoader::kGather;
    for (int i = 0; i < Traits::kSlots; ++i) {
      ptx::mbarrier_init(&ring.full[i], kByThreads ? Traits::kProducers : 1);
      ptx::mbarrier_init(&ring.empty[i], Traits::kSlotReleases);
    }
    for (int i = 0; i < kTasks; ++i) {
      ptx::mbarrier_init(&queue.full[i], 1);
      ptx::mbarrier_init(&queue.empty[i], Traits::kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  if (!params.early_pages) ptx::wait_for_dependencies();

  if (threadIdx.x >= Traits::kConsumers) {
    // The first pages are looked up while the barriers are made.
    const metadata::SplitWorker begin = metadata::load_worker(params.split.workers + worker);
    KvProducer<Traits> producer(params, maps, ring, kv_head);
    producer.start(begin.row, begin.key_begin);
    __syncthreads();
    produce<Traits>(params, producer, queue, worker, begin);
    return;
  }
  __syncthreads();
  if (params.early_pages) ptx::wait_for_dependencies();
  ptx::launch_dependents();
  const ConsumerMemory<Traits> memory{queries, weights, maxima,
                                      maxima + Traits::kConsumerWarps * Traits::kQueries};
  Consumer<Traits> consumer(params, ring, memory, kv_head);
  RingPosition<kTasks> position;
  while (true) {
    ptx::mbarrier_wait(&queue.full[position.slot], position.phase);
    const PieceTask task = queue.tasks[position.slot];
    ptx::mbarrier_arrive(&queue.empty[position.slot]);
    position.advance();
    if (task.key_end == 0) break;
    consumer.run(task);
  }
}

}  // namespace headrace::attention
