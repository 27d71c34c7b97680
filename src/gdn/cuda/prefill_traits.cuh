// SPDX-License-Identifier: Apache-2.0
// Compile-time shape of chunked prefill on Hopper, and where things lie in its tiles. Heads have
// K = V = 128.
//
// A tile is 64 tokens of one head in slices of 64 elements: [slices][64][64], as the copy engine
// writes them: rows of 128 bytes, their 16-byte units swizzled (unit xor row % 8).
#pragma once

#include <cstdint>

#include "metadata/row.h"

namespace headrace::gdn {

inline constexpr int kPrefillHeadDim = 128;
inline constexpr int kChunk = metadata::kChunkTokens;
inline constexpr int kSliceBytes = kChunk * 128;  // of a tile: 64 tokens, 64 elements each
inline constexpr int kTileBytes = kPrefillHeadDim / 64 * kSliceBytes;
inline constexpr int kAtomBytes = 1024;  // 8 rows of 128 bytes

// Of the scan kernel.
template <typename Element_>
struct PrefillTraits {
  using Element = Element_;
  static constexpr int kWarpgroups = 2;  // that compute, with 64 value columns each
  static constexpr int kStages = 3;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters = 240;
};

// Byte of the 16-byte unit `unit` of row `row` in a slice.
__device__ __forceinline__ uint32_t slice_offset(uint32_t row, uint32_t unit) {
  return row * 128 + ((unit ^ (row % 8)) << 4);
}

}  // namespace headrace::gdn
