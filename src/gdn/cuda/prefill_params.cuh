// SPDX-License-Identifier: Apache-2.0
// What the two kernels of chunked prefill are given, and what the first hands to the second. Made
// by the launcher on the host; knows no tile shape but the chunk's.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gdn/parts_params.h"
#include "gdn/slot_layout.h"
#include "metadata/row.h"

namespace headrace::gdn {

// What a chunk's tokens say without the state, of one value head, as it lies in the workspace and
// in shared memory: matrices of 64 × 64 16-bit elements with rows i of 128 bytes, their 16-byte
// units swizzled for wgmma (unit xor row % 8). n is the chunk's length; G the cumulative log decay.
struct alignas(128) ChunkTerms {
  static constexpr int kMatrixBytes = metadata::kChunkTokens * 128;
  uint8_t solve[kMatrixBytes];  // ((I + tril(β K Kᵀ, −1))⁻¹)_ij · e^{G_i − G_j} · β_j for j ≤ i
  uint8_t scores[kMatrixBytes];              // q_i·k_j · e^{G_i − G_j} for j ≤ i
  float from_start[metadata::kChunkTokens];  // e^{G_i}, 0 for i ≥ n
  float to_end[metadata::kChunkTokens];      // e^{G_{n−1} − G_j}, 0 for j ≥ n
  float total[4];                            // e^{G_{n−1}}, four times

  static constexpr int kBytes = 2 * kMatrixBytes + (2 * metadata::kChunkTokens + 4) * 4;
};

struct PrefillKernelParams {
  // [Hk, K / 64, T, 64] of q and k, [Hv, V / 64, T, 64] of v; a box is one head's 64 tokens, of v
  // only one slice of 64 columns.
  CUtensorMap query_map;
  CUtensorMap key_map;
  CUtensorMap value_map;
  int32_t num_k_heads = 0;
  int32_t num_v_heads = 0;
  int32_t group_size = 0;  // Hv / Hk

  const float* gate = nullptr;  // [T, Hv]
  GateFormat gate_format = GateFormat::kLog;
  const float* beta = nullptr;  // [T, Hv]
  ChunkTerms* terms = nullptr;  // [max_chunks, Hv]
  void* out = nullptr;          // [T, Hv, V]
  int64_t out_stride = 0;       // elements from token to token

  SlotPool slots;
  SlotLayout layout;
  metadata::StepView step;
};

}  // namespace headrace::gdn
