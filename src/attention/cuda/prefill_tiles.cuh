// SPDX-License-Identifier: Apache-2.0
// Shapes of the prefill kernel and its shared memory, through which the producer warp
// (prefill_producer.cuh) feeds the consumer warpgroups (prefill_consumer.cuh).
//
// Matrices of rows × D lie in atoms of 8 rows × 128 bytes (wgmma.cuh). Q: [warpgroups][D / 64][64
// rows], a slice of 64 elements after the other. K, V: [kKeys / 8][D / 64][8 tokens], so that
// a box of any number of 8-token pieces lands as one run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/prefill_config.h"
#include "attention/cuda/prefill_work.cuh"

namespace headrace::attention {

template <typename T, int kHeadDim_, bool kSoftCap_>
struct PrefillTraits {
  using Element = T;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr bool kSoftCap = kSoftCap_;
  static constexpr PrefillTile kTile = prefill_tile(kHeadDim, kSoftCap);
  static constexpr int kKeys = kTile.keys;
  static constexpr int kStages = 2;  // tiles of K, and of V, in the ring
  static constexpr int kConsumers = kTile.warpgroups;
  static constexpr int kWarpgroupQueries = 64;
  static constexpr int kBlockQueries = kTile.queries();
  static constexpr int kThreads = (1 + kConsumers) * 128;
  // All that a block was launched with: 504 and 512 a quadruple of threads.
  static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 232 : 160;
  static constexpr int kSlices = kHeadDim / 64;
  static constexpr uint32_t kAtomBytes = 1024;
  static constexpr uint32_t kQueryBytes = kWarpgroupQueries * kHeadDim * 2;
  static constexpr uint32_t kTileBytes = kKeys * kHeadDim * 2;
};

template <typename Traits>
struct PrefillShared {
  alignas(1024) uint8_t query[Traits::kConsumers][Traits::kQueryBytes];
  alignas(1024) uint8_t keys[Traits::kStages][Traits::kTileBytes];
  alignas(1024) uint8_t values[Traits::kStages][Traits::kTileBytes];
  uint64_t keys_full[Traits::kStages];
  uint64_t keys_empty[Traits::kStages];
  uint64_t values_full[Traits::kStages];
  uint64_t values_empty[Traits::kStages];
  uint64_t item_full;  // item and query
  uint64_t item_empty;
  PrefillItem item;
};
// The dynamic shared memory begins anywhere.
template <typename Traits>
constexpr size_t prefill_shared_bytes() {
  return sizeof(PrefillShared<Traits>) + 1024;
}

// Where one side of a ring stands.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Tiles of an item: those with a key that one of its queries sees.
template <typename Traits>
__device__ __forceinline__ int32_t tiles_end(const PrefillItem& item) {
  return (item.first_position + item.num_queries + Traits::kKeys - 1) / Traits::kKeys;
}
template <typename Traits>
__device__ __forceinline__ int32_t tiles_begin(const PrefillItem& item, int32_t window) {
  return window > 0 ? max(0, item.first_position - window + 1) / Traits::kKeys : 0;
}

}  // namespace headrace::attention
