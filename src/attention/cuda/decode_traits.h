// SPDX-License-Identifier: Apache-2.0
// Compile-time shape of a decode kernel: element types, tiles, and how shared memory is laid out.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

namespace headrace::attention {

// How keys and values reach shared memory.
enum class KvLoader {
  kTensorCopy,  // one box of the copy engine for 16 tokens: they lie in one page
  kGather,      // 16 bytes a thread, a page lookup a token: any page size
};

inline constexpr int kTileKeys = 64;   // keys that the block's warps treat together
inline constexpr int kPieceKeys = 16;  // keys of one warp, one copy, one matrix product

// kRaceDelaysOf: for tests, see tensor/cuda/race_delay.cuh.
template <typename IoType, typename KvType, int kHeadDimOf, int kQueryTilesOf, KvLoader kLoaderOf,
          bool kRaceDelaysOf = false>
struct DecodeTraits {
  using Io = IoType;  // of q and out
  using Kv = KvType;
  static constexpr bool kIsFp8 = std::is_same_v<Kv, __nv_fp8_e4m3>;
  using Mma = std::conditional_t<kIsFp8, __half, Kv>;  // what is multiplied; fp8 fits fp16 exactly
  static_assert(kIsFp8 || std::is_same_v<Io, Kv>);

  static constexpr int kHeadDim = kHeadDimOf;
  static constexpr int kQueryTiles = kQueryTilesOf;  // of 8 queries
  static constexpr int kQueries = 8 * kQueryTiles;   // treated in one pass over the keys
  static constexpr KvLoader kLoader = kLoaderOf;
  static constexpr bool kRaceDelays = kRaceDelaysOf;

  static constexpr int kConsumerWarps = 4;
  static constexpr int kProducerWarps = kLoader == KvLoader::kTensorCopy ? 1 : 2;
  static constexpr int kConsumers = 32 * kConsumerWarps;
  static constexpr int kProducers = 32 * kProducerWarps;
  static constexpr int kThreads = kConsumers + kProducers;
  // Who says that a slot is free again: a lane for its warp where the copy engine fills it, every
  // thread where threads do.
  static constexpr int kSlotReleases =
      kLoader == KvLoader::kTensorCopy ? kConsumerWarps : kConsumers;
  static_assert(kTileKeys == kPieceKeys * kConsumerWarps);

  // A piece lies in shared memory as [kSlices, 16 keys, kLineBytes], with 16-byte chunks swizzled
  // as the copy engine does it.
  static constexpr int kHeadBytes = kHeadDim * static_cast<int>(sizeof(Kv));
  static constexpr int kLineBytes = kHeadBytes < 128 ? kHeadBytes : 128;
  static constexpr int kSlices = kHeadBytes / kLineBytes;
  static constexpr int kSliceBytes = kPieceKeys * kLineBytes;
  static constexpr int kPieceBytes = kPieceKeys * kHeadBytes;

  // The ring's slots hold keys or values of a tile, or of a part of it.
  static constexpr int kMaxSlotBytes = 16384;
  static constexpr int kSlotKeys =
      kTileKeys * kHeadBytes <= kMaxSlotBytes ? kTileKeys : kMaxSlotBytes / kHeadBytes;
  static constexpr int kSlotPieces = kSlotKeys / kPieceKeys;
  static constexpr int kSlotBytes = kSlotKeys * kHeadBytes;
  static constexpr int kSlotsPerTile = kTileKeys / kSlotKeys;

  // Padded so that 8 rows of 16 bytes hit all banks.
  static constexpr int kQueryStride = kHeadDim + 8;
  static constexpr int kWeightStride = kTileKeys + 8;
  static constexpr int kQueryBytes = kQueries * kQueryStride * 2;
  static constexpr int kWeightBytes = kQueries * kWeightStride * 2;
  static constexpr int kReduceBytes = 2 * kConsumerWarps * kQueries * 4;
  // Two blocks share a multiprocessor's 227 KB.
  static constexpr int kBlockBytes = 112 * 1024;
  static constexpr int kFixedBytes = kQueryBytes + kWeightBytes + kReduceBytes + 512;
  static constexpr int kSlotsThatFit = (kBlockBytes - kFixedBytes) / kSlotBytes;
  static constexpr int kSlots = kSlotsThatFit < 16 ? kSlotsThatFit : 16;
  // A warp that arrives on a slot is never a whole use of it ahead of another.
  static_assert(kSlots > 2 * kSlotsPerTile);
  static constexpr int kSharedBytes = kSlots * kSlotBytes + kFixedBytes;
};

}  // namespace headrace::attention
