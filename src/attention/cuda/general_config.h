// SPDX-License-Identifier: Apache-2.0
// Which general kernel takes a problem, and why none does. Pure functions of shapes, types, strides
// and alignment: they can be printed and tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

// Of the kernel for a head dim.
struct GeneralTile {
  int32_t warps = 0;
  int32_t row_tiles = 0;  // of 16 queries, of a warp
  int32_t keys = 0;
  int32_t blocks_per_multiprocessor = 0;
  constexpr int32_t queries() const { return 16 * row_tiles * warps; }
};
// Two row tiles a warp halve what is read of K and V from shared memory; at D = 256 registers have
// room for one. A wide block (D = 256 alone) takes twice the queries, and 192 KB of shared memory,
// which no GPU before Hopper has.
constexpr GeneralTile general_tile(int32_t head_dim, bool wide) {
  switch (head_dim) {
    case 64:
      return {.warps = 4, .row_tiles = 2, .keys = 64, .blocks_per_multiprocessor = 3};
    case 128:
      return {.warps = 4, .row_tiles = 2, .keys = 64, .blocks_per_multiprocessor = 2};
    default:
      return wide ? GeneralTile{8, 1, 64, 1} : GeneralTile{4, 1, 32, 2};
  }
}

// The first four name one instantiation of the kernel (general_instances.h).
struct GeneralConfig {
  DType io_dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  int32_t head_dim = 0;
  bool wide = false;
  bool async = true;  // K and V by asynchronous copies of 16 bytes; else element by element

  bool operator==(const GeneralConfig&) const = default;
};

// "general bf16, KV fp8_e4m3, D 128, 128 queries x 64 keys, async copies"
std::string to_string(const GeneralConfig& config);

// kUnsupported, with the reason, for element types and head dims that are not built.
// `max_shared_bytes`: what a thread block of the GPU may have.
Result<GeneralConfig> choose_general(const AttentionParams& params, int32_t max_shared_bytes);

}  // namespace headrace::attention
