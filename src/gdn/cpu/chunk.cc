// SPDX-License-Identifier: Apache-2.0
// The chunked form as small matrix products; chunk.h has the equations.
#include "gdn/cpu/chunk.h"

#include <algorithm>
#include <cmath>

#include "gdn/gates.h"

namespace headrace::gdn {
namespace {

constexpr int32_t kChunk = metadata::kChunkTokens;
// Tokens that are solved, or whose outputs are made, together: the row tile of the fast gemm.
constexpr int32_t kSolveBlock = 6;

}  // namespace

void chunk_products(const CpuKernels& kernels, const float* q, const float* k, int32_t n,
                    int32_t k_dim, ChunkProducts& products) {
  alignas(64) float k_transposed[kMaxKDim * kChunk];
  for (int32_t j = 0; j < n; ++j) {
    for (int32_t i = 0; i < k_dim; ++i) k_transposed[i * kChunk + j] = k[int64_t{j} * k_dim + i];
  }
  // The gemm's columns come in sixteens.
  const int32_t columns = (n + 15) / 16 * 16;
  for (int32_t j = n; j < columns; ++j) {
    for (int32_t i = 0; i < k_dim; ++i) k_transposed[i * kChunk + j] = 0.0f;
  }
  // Rows of 16 columns' worth, so that little above the diagonal is made.
  for (int32_t begin = 0; begin < n; begin += 16) {
    SmallGemm gemm{.m = std::min(16, n - begin),
                   .n = std::min(columns, begin + 16),
                   .depth = k_dim,
                   .a = k + int64_t{begin} * k_dim,
                   .a_row = k_dim,
                   .a_depth = 1,
                   .b = k_transposed,
                   .b_stride = kChunk,
                   .c = products.kk[begin],
                   .c_stride = kChunk};
    kernels.gemm(gemm);
    gemm.a = q + int64_t{begin} * k_dim;
    gemm.c = products.qk[begin];
    kernels.gemm(gemm);
  }
}

void chunk_scores(const CpuKernels& kernels, const ChunkProducts& products, const float* gate,
                  GateFormat format, const float* beta, int64_t gate_stride, int32_t n,
                  ChunkScores& scores) {
  // In double: after a few clamped gates the sum is in the hundreds, and a float sum would lose
  // what separates two tokens behind them.
  double sums[kChunk] = {};
  double sum = 0.0;
  for (int32_t i = 0; i < n; ++i) {
    sum += decode_gate(gate[i * gate_stride], format);
    sums[i] = sum;
    scores.beta[i] = beta[i * gate_stride];
  }
  for (int32_t i = 0; i < n; ++i) {
    scores.from_start[i] = std::exp(static_cast<float>(sums[i]));
    scores.to_end[i] = std::exp(static_cast<float>(sum - sums[i]));
    kernels.decay_row(-1.0f, sums[i], sums, products.kk[i], i, scores.to_solve[i]);
    kernels.decay_row(1.0f, sums[i], sums, products.qk[i], i + 1, scores.to_out[i]);
  }
}

void chunk_advance(const CpuKernels& kernels, const ChunkScores& scores, const float* q,
                   const float* k, int32_t n, int32_t k_dim, const float* v, int64_t v_stride,
                   int32_t rows, float* state, float* out, int64_t out_stride) {
  alignas(64) float delta[kChunk][kStateRows];  // W, then V'
  alignas(64) float work[kChunk][kStateRows];
  SmallGemm from_state{.m = n,
                       .n = kStateRows,
                       .depth = k_dim,
                       .a = k,
                       .a_row = k_dim,
                       .a_depth = 1,
                       .b = state,
                       .b_stride = kStateRows,
                       .c = delta[0],
                       .c_stride = kStateRows};
  kernels.gemm(from_state);
  for (int32_t i = 0; i < n; ++i) {
    const float decay = scores.from_start[i];
    const float* v_i = v + i * v_stride;
    for (int32_t r = 0; r < rows; ++r) delta[i][r] = v_i[r] - decay * delta[i][r];
  }

  for (int32_t begin = 0; begin < n; begin += kSolveBlock) {
    const int32_t end = std::min(n, begin + kSolveBlock);
    if (begin > 0) {
      kernels.gemm({.m = end - begin,
                    .n = kStateRows,
                    .depth = begin,
                    .a = scores.to_solve[begin],
                    .a_row = kChunk,
                    .a_depth = 1,
                    .b = delta[0],
                    .b_stride = kStateRows,
                    .c = delta[begin],
                    .c_stride = kStateRows,
                    .c_scale = 1.0f});
    }
    for (int32_t i = begin; i < end; ++i) {
      for (int32_t j = begin; j < i; ++j) {
        const float factor = scores.to_solve[i][j];
        for (int32_t r = 0; r < kStateRows; ++r) delta[i][r] += factor * delta[j][r];
      }
      for (int32_t r = 0; r < kStateRows; ++r) delta[i][r] *= scores.beta[i];
    }
  }

  from_state.a = q;
  from_state.c = work[0];
  kernels.gemm(from_state);
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t r = 0; r < kStateRows; ++r) work[i][r] *= scores.from_start[i];
  }
  for (int32_t begin = 0; begin < n; begin += kSolveBlock) {
    const int32_t end = std::min(n, begin + kSolveBlock);
    kernels.gemm({.m = end - begin,
                  .n = kStateRows,
                  .depth = end,
                  .a = scores.to_out[begin],
                  .a_row = kChunk,
                  .a_depth = 1,
                  .b = delta[0],
                  .b_stride = kStateRows,
                  .c = work[begin],
                  .c_stride = kStateRows,
                  .c_scale = 1.0f});
  }
  for (int32_t i = 0; i < n; ++i) std::copy_n(work[i], rows, out + i * out_stride);

  for (int32_t i = 0; i < n; ++i) {
    for (int32_t r = 0; r < kStateRows; ++r) work[i][r] = delta[i][r] * scores.to_end[i];
  }
  kernels.gemm({.m = k_dim,
                .n = kStateRows,
                .depth = n,
                .a = k,
                .a_row = 1,
                .a_depth = k_dim,
                .b = work[0],
                .b_stride = kStateRows,
                .c = state,
                .c_stride = kStateRows,
                .c_scale = scores.from_start[n - 1]});
}

}  // namespace headrace::gdn
