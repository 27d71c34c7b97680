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

template <typename IoType, typename KvType, int kHeadDimOf, bool kIsWide>
struct GeneralTraits {
  using Io = IoType;  // of q and out
  using Kv = KvType;
  static constexpr bool kIsFp8 = std::is_same_v<Kv, __nv_fp8_e4m3>;
  using Mma = std::conditional_t<kIsFp8, __half, Kv>;  // what is multiplied; fp8 fits fp16 exactly
  static_assert(kIsFp8 || std::is_same_v<Io, Kv>);
  static constexpr int kHeadDim = kHeadDimOf;

  static constexpr GeneralTile kTile = general_tile(kHeadDim, kIsWide);
  static constexpr int kRowTiles = kTile.row_tiles;
  static constexpr int kThreads = 32 * kTile.warps;
  static constexpr int kWarpQueries = 16 * kRowTiles;
  static constexpr int kQueries = kTile.queries();  // of a block
  static constexpr int kKeys = kTile.keys;          // of a tile
  static constexpr int kBlocksPerMultiprocessor = kTile.blocks_per_multiprocessor;

  // 16-bit elements fill one pair of tiles while the other is at work; fp8 arrives in a place of
  // its own and is widened from there.
  static constexpr int kStages = kIsFp8 ? 1 : 2;
  static constexpr int kTileElements = kKeys * kHeadDim;
};

template <typename Traits>
struct GeneralShared {
  using Mma = typename Traits::Mma;
  alignas(1024) Mma queries[Traits::kQueries * Traits::kHeadDim];
  alignas(1024) Mma keys[Traits::kStages][Traits::kTileElements];
  alignas(1024) Mma values[Traits::kStages][Traits::kTileElements];
  alignas(16) uint8_t raw_keys[Traits::kIsFp8 ? Traits::kTileElements : 16];
  alignas(16) uint8_t raw_values[Traits::kIsFp8 ? Traits::kTileElements : 16];
  const typename Traits::Kv* lines[2][Traits::kKeys];  // a tile's keys in the cache; null: no key
  GeneralItem item;
  GeneralWorkState<Traits::kQueries> work[32];
};

}  // namespace headrace::attention
