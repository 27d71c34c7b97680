// SPDX-License-Identifier: Apache-2.0
// One step of tiled attention: a block of queries of one row and one key head meets the keys of one
// tile. The driver (attention_tiled.cc) finds where the keys lie; a kernel does the arithmetic.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"

namespace headrace::attention {

// Query-head pairs of a block. Two pairs of one query are neighbours.
inline constexpr int64_t kMaxPairs = 48;
// Keys of a tile; the same as kKeyTile.
inline constexpr int64_t kTileKeys = 64;

// State of a block, carried from tile to tile.
struct PairState {
  float max;  // of the scores so far; −inf: none
  float sum;  // Σ e^(score − max)
};

struct AttentionTile {
  // Where the keys of the tile lie: element offsets of K vectors, V value_offset further on. Lanes
  // outside [begin, end) repeat an offset inside; what they give is not used.
  const void* cache = nullptr;
  DType dtype = DType::kF32;
  const int64_t* key_offsets = nullptr;  // [kTileKeys]
  int64_t value_offset = 0;
  int64_t begin = 0;  // lanes that any query of the block sees
  int64_t end = 0;

  int64_t head_dim = 0;
  int64_t num_pairs = 0;
  int64_t group = 1;            // pairs of one query
  const float* q = nullptr;     // [num_pairs, D]
  PairState* states = nullptr;  // [num_pairs]
  float* out = nullptr;         // [num_pairs, D], not yet divided by the sum
  // The lanes that query i sees are [max(0, first_seen + i), min(kTileKeys, end_seen + i)), where
  // first_seen is far below zero when there is no window.
  int64_t first_seen = 0;
  int64_t end_seen = 0;

  float scale = 1.0f;
  float soft_cap = 0.0f;

  float* keys = nullptr;    // scratch [4, D, 16]: keys of the tile in panels of 16
  float* values = nullptr;  // scratch [kTileKeys, D]; unused for fp32
  float* scores = nullptr;  // scratch [num_pairs, kTileKeys]
};

void attention_tile_avx2(const AttentionTile& tile);

}  // namespace headrace::attention
