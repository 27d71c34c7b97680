// SPDX-License-Identifier: Apache-2.0
// The chunked form of the delta rule on one chunk of at most 64 tokens. With G the cumulative log
// decay of the chunk, and S in front of it:
//   W_i  = v_i − e^{G_i} S k_i
//   V'_i = β_i (W_i − Σ_{j<i} e^{G_i−G_j} (k_i·k_j) V'_j)          (forward substitution)
//   o_i  = e^{G_i} S q_i + Σ_{j≤i} e^{G_i−G_j} (q_i·k_j) V'_j
//   S    ← e^{G_n} S + Σ_j e^{G_n−G_j} V'_j k_jᵀ                   (n: the chunk's own last token)
// Only differences G_i − G_j with i ≥ j are exponentiated. What does not depend on S is made once
// for all rows of S (ChunkScores); what does is made for kStateRows of them at a time.
#pragma once

#include <cstdint>

#include "gdn/cpu/kernels.h"
#include "gdn/gdn_params.h"
#include "metadata/row.h"

namespace headrace::gdn {

// One chunk and value head. Rows and columns past the chunk's length hold nothing.
struct ChunkScores {
  float to_solve[metadata::kChunkTokens][metadata::kChunkTokens];  // −e^{G_i−G_j} k_i·k_j, j < i
  float to_out[metadata::kChunkTokens][metadata::kChunkTokens];  // e^{G_i−G_j} q_i·k_j, j ≤ i
  float from_start[metadata::kChunkTokens];                      // e^{G_i}
  float to_end[metadata::kChunkTokens];                          // e^{G_n−G_i}
  float beta[metadata::kChunkTokens];
};

// Products of a chunk's keys and queries of one key head, shared by its value heads; columns past
// the diagonal's block hold nothing.
struct ChunkProducts {
  float kk[metadata::kChunkTokens][metadata::kChunkTokens];  // k_i·k_j
  float qk[metadata::kChunkTokens][metadata::kChunkTokens];  // q_i·k_j
};

// q, k [n, k_dim] dense.
void chunk_products(const CpuKernels& kernels, const float* q, const float* k, int32_t n,
                    int32_t k_dim, ChunkProducts& products);

// gate and beta with stride gate_stride.
void chunk_scores(const CpuKernels& kernels, const ChunkProducts& products, const float* gate,
                  GateFormat format, const float* beta, int64_t gate_stride, int32_t n,
                  ChunkScores& scores);

// `state` is [k_dim, kStateRows]: kStateRows rows of S, transposed. v and out have `rows` ≤
// kStateRows columns; columns of the state past `rows` are zero and stay so.
void chunk_advance(const CpuKernels& kernels, const ChunkScores& scores, const float* q,
                   const float* k, int32_t n, int32_t k_dim, const float* v, int64_t v_stride,
                   int32_t rows, float* state, float* out, int64_t out_stride);

}  // namespace headrace::gdn
