// SPDX-License-Identifier: Apache-2.0
// Compile-time shape of a general kernel, and its shared memory.
//
// Matrices of rows × D 16-bit elements lie in lines of D, in chunks of 16 bytes; chunk c of row r
// stands at c XOR (r mod 8), so that 8 rows' chunks of one column lie in different banks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "attention/cuda/general_config.h"
#include "attention/cuda/general_work.cuh"

namespace headrace::attention {

template <typename IoType, typename KvType, int kHeadDimOf, GeneralLoad kLoadOf>
struct GeneralTraits {
  using Io = IoType;  // of q and out
  using Kv = KvType;
  static constexpr bool kIsFp8 = std::is_same_v<Kv, __nv_fp8_e4m3>;
  using Mma = std::conditional_t<kIsFp8, __half, Kv>;  // what is multiplied; fp8 fits fp16 exactly
  static_assert(kIsFp8 || std::is_same_v<Io, Kv>);
  static constexpr int kHeadDim = kHeadDimOf;
  static constexpr GeneralLoad kLoad = kLoadOf;

  // A warp has 16 queries a row tile. Two of them halve what is read of K and V from shared memory;
  // at D = 256 registers have room for one.
  static constexpr int kRowTiles = kHeadDim <= 128 ? 2 : 1;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kWarpQueries = 16 * kRowTiles;
  static constexpr int kQueries = kWarpQueries * kWarps;   // of a block
  static constexpr int kKeys = kHeadDim <= 128 ? 64 : 32;  // of a tile
  static constexpr int kBlocksPerMultiprocessor = kHeadDim == 64 ? 3 : 2;

  // Asynchronous copies of 16-bit elements fill one pair of tiles while the other is at work; fp8
  // arrives in a place of its own and is widened from there.
  static constexpr bool kIsRing = kLoad == GeneralLoad::kAsync && !kIsFp8;
  static constexpr bool kIsWidened = kLoad == GeneralLoad::kAsync && kIsFp8;
  static constexpr int kStages = kIsRing ? 2 : 1;
  static constexpr int kTileElements = kKeys * kHeadDim;
};

template <typename Traits>
struct GeneralShared {
  using Mma = typename Traits::Mma;
  alignas(1024) Mma queries[Traits::kQueries * Traits::kHeadDim];
  alignas(1024) Mma keys[Traits::kStages][Traits::kTileElements];
  alignas(1024) Mma values[Traits::kStages][Traits::kTileElements];
  alignas(16) uint8_t raw_keys[Traits::kIsWidened ? Traits::kTileElements : 16];
  alignas(16) uint8_t raw_values[Traits::kIsWidened ? Traits::kTileElements : 16];
  int64_t offsets[2][Traits::kKeys];  // of a tile's keys in the cache; −1: no key
  GeneralItem item;
  GeneralWorkState<Traits::kQueries> work[32];
};

}  // namespace headrace::attention
