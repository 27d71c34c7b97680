// SPDX-License-Identifier: Apache-2.0
// Solves the unit lower triangular systems of a chunk: for its value heads, two at a time,
//   T = (I + tril(diag(β) K Kᵀ, −1))⁻¹ diag(β),   [64, 64]
// from K Kᵀ, which they share. Four warps. Knows neither gates nor queries.
//
// The four 16 × 16 blocks on the diagonal are inverted in fp32, a column a thread. With L the lower
// right part of T, R the upper left one and A the part of K Kᵀ between them, the part of T below
// the diagonal is −L A R: first for parts of 16, then of 32 rows; products in fp16 with fp32 sums
// (the elements of T lie in [−1, 1] for normalised keys).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "gdn/cuda/prefill_traits.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::gdn {

// Rows are padded so that eight rows of a 16-byte unit lie in different banks.
struct HalfMatrix {
  static constexpr int kStride = kChunk + 8;
  __half elements[kChunk * kStride];
};

struct SolveShared {
  HalfMatrix key_products;    // K Kᵀ, below the diagonal blocks
  float diagonal[4][16][20];  // its blocks on the diagonal, symmetric
  HalfMatrix solution[2];     // T of two value heads; what lies above the diagonal blocks is not T
};

class ChunkSolver {
 public:
  __device__ __forceinline__ explicit ChunkSolver(SolveShared& shared)
      : shared_(shared), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {}

  // products: the warpgroup's accumulators of K Kᵀ. Tokens from n on count as zero vectors.
  __device__ __forceinline__ void set_key_products(const float (&products)[32], int32_t n) {
    const int row = 16 * warp_ + lane_ / 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = 8 * j + 2 * (lane_ % 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = row + 8 * half;
        const float first = r < n && column < n ? products[4 * j + 2 * half] : 0.0f;
        const float second = r < n && column + 1 < n ? products[4 * j + 2 * half + 1] : 0.0f;
        *reinterpret_cast<__half2*>(
            &shared_.key_products.elements[r * HalfMatrix::kStride + column]) =
            __floats2half2_rn(first, second);
        if (j / 2 == warp_) {
          float* to = &shared_.diagonal[warp_][r % 16][column % 16];
          to[0] = first;
          to[1] = second;
        }
      }
    }
  }

  // β of the two heads, [64] each. Barriers of the block inside; the result is there at return.
  __device__ __forceinline__ void solve(const float* beta_first, const float* beta_second) {
    invert_diagonal(lane_ < 16 ? beta_first : beta_second);
    __syncthreads();
    extend_to_32();
    __syncthreads();
    extend_to_64();
    __syncthreads();
  }

 private:
  // Block row and column of a matrix.
  __device__ static __half* block(HalfMatrix& matrix, int row, int column) {
    return &matrix.elements[16 * row * HalfMatrix::kStride + 16 * column];
  }

  // Lanes 0…15 and 16…31: one head each. x is a column of the inverse: rows below what is known
  // gather their sums.
  __device__ __forceinline__ void invert_diagonal(const float* beta) {
    const int column = lane_ % 16;
    float sums[16] = {};
    HalfMatrix& solution = shared_.solution[lane_ / 16];
    const float beta_column = beta[16 * warp_ + column];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float x = (i == column ? 1.0f : 0.0f) - beta[16 * warp_ + i] * sums[i];
      const float4* products = reinterpret_cast<const float4*>(shared_.diagonal[warp_][i]);
#pragma unroll
      for (int quad = i / 4; quad < 4; ++quad) {
        const float4 p = products[quad];
        if (4 * quad + 0 > i) sums[4 * quad + 0] += p.x * x;
        if (4 * quad + 1 > i) sums[4 * quad + 1] += p.y * x;
        if (4 * quad + 2 > i) sums[4 * quad + 2] += p.z * x;
        if (4 * quad + 3 > i) sums[4 * quad + 3] += p.w * x;
      }
      block(solution, warp_, warp_)[i * HalfMatrix::kStride + column] =
          __float2half_rn(x * beta_column);
    }
  }

  // One head and pair of blocks a warp.
  __device__ __forceinline__ void extend_to_32() {
    HalfMatrix& solution = shared_.solution[warp_ / 2];
    const int left = warp_ % 2 * 2;
    float product[2][4] = {};
    multiply(product, block(solution, left + 1, left + 1),
             block(shared_.key_products, left + 1, left));
    float result[2][4] = {};
    multiply(result, product, block(solution, left, left));
    store_negative(result, block(solution, left + 1, left));
  }

  // One head and row of blocks a warp.
  __device__ __forceinline__ void extend_to_64() {
    HalfMatrix& solution = shared_.solution[warp_ / 2];
    const int row = 2 + warp_ % 2;
    float left[2][4] = {};
    float right[2][4] = {};
    for (int m = 2; m <= row; ++m) {
      multiply(left, block(solution, row, m), block(shared_.key_products, m, 0));
      multiply(right, block(solution, row, m), block(shared_.key_products, m, 1));
    }
    float result[2][4] = {};
    multiply(result, left, block(solution, 0, 0));
    multiply(result, right, block(solution, 1, 0));
    store_negative(result, block(solution, row, 0));
    float last[2][4] = {};
    multiply(last, right, block(solution, 1, 1));
    store_negative(last, block(solution, row, 1));
  }

  // --- blocks of 16 × 16; accumulators [2][4] are its left and right half ---

  __device__ __forceinline__ uint32_t matrix_address(const __half* from) const {
    const int row = lane_ / 8 % 2 * 8 + lane_ % 8;
    return ptx::shared_address(from + row * HalfMatrix::kStride + lane_ / 16 * 8);
  }
  __device__ __forceinline__ void multiply_by(float (&c)[2][4], const uint32_t (&a)[4],
                                              const __half* b) const {
    uint32_t right[4];
    ptx::load_matrices_transposed(matrix_address(b), right);
    ptx::multiply_add<__half>(c[0], a, right[0], right[1]);
    ptx::multiply_add<__half>(c[1], a, right[2], right[3]);
  }
  __device__ __forceinline__ void multiply(float (&c)[2][4], const __half* a,
                                           const __half* b) const {
    uint32_t left[4];
    ptx::load_matrices(matrix_address(a), left);
    multiply_by(c, left, b);
  }
  __device__ __forceinline__ void multiply(float (&c)[2][4], const float (&a)[2][4],
                                           const __half* b) const {
    const uint32_t left[4] = {
        ptx::pack<__half>(a[0][0], a[0][1]), ptx::pack<__half>(a[0][2], a[0][3]),
        ptx::pack<__half>(a[1][0], a[1][1]), ptx::pack<__half>(a[1][2], a[1][3])};
    multiply_by(c, left, b);
  }
  __device__ __forceinline__ void store_negative(const float (&c)[2][4], __half* to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        __half* at = to + (lane_ / 4 + 8 * half) * HalfMatrix::kStride + 8 * side + 2 * (lane_ % 4);
        *reinterpret_cast<__half2*>(at) =
            __floats2half2_rn(-c[side][2 * half], -c[side][2 * half + 1]);
      }
    }
  }

  SolveShared& shared_;
  const int warp_;
  const int lane_;
};

}  // namespace headrace::gdn
