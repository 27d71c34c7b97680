// SPDX-License-Identifier: Apache-2.0
// Online softmax of one warpgroup over a tile of scores in the layout of wgmma's accumulators: a
// thread holds two rows (index 0: upper, 1: eight below), a row lies in four neighbouring lanes.
//   m' = max(m, max s);  p = 2^((s − m')·c);  l ← l·2^((m − m')·c) + Σ p
// with c = log2(e) · scale. Knows nothing of tiles in memory.
#pragma once

#include <cstdint>

#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

struct PrefillSoftmax {
  float max[2];  // of the scores seen so far; −inf: none has any weight
  float sum[2];  // over this thread's columns
};

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFF, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFF, x, 2);
}

// tanh(x · cap_scale / (2 log2 e)) for every score: 1 − 2 / (e^2y + 1). Exact at ±inf.
template <int kCount>
__device__ __forceinline__ void cap_scores(float (&scores)[kCount], float cap_scale) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    scores[i] =
        1.0f - __fdividef(2.0f, fminf(ptx::exp2_approx(scores[i] * cap_scale), 1e30f) + 1.0f);
  }
}

// Scores of keys that the thread's rows do not see become −inf. `last` is the last column that the
// upper row sees, counted from the thread's first; it sees `window` columns up to it.
template <int kCount>
__device__ __forceinline__ void mask_scores(float (&scores)[kCount], int32_t last, int32_t window) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int32_t behind = last + 4 * (i & 2) - (i / 4 * 8 + (i & 1));
    if (static_cast<uint32_t>(behind) >= static_cast<uint32_t>(window)) scores[i] = -INFINITY;
  }
}

// Scores become weights; returns in `correction` what the sums over earlier tiles are to be
// multiplied with.
template <int kCount>
__device__ __forceinline__ void softmax_tile(float (&scores)[kCount], float log2_scale,
                                             PrefillSoftmax& state, float (&correction)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float max = fmaxf(scores[2 * row], scores[2 * row + 1]);
#pragma unroll
    for (int i = 4; i < kCount; i += 4) {
      max = fmaxf(max, fmaxf(scores[i + 2 * row], scores[i + 2 * row + 1]));
    }
    max = fmaxf(state.max[row], quad_max(max));
    const float origin = max == -INFINITY ? 0.0f : max * log2_scale;
    correction[row] = ptx::exp2_approx(state.max[row] * log2_scale - origin);
    state.max[row] = max;
    float sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        float& score = scores[i + 2 * row + column];
        score = ptx::exp2_approx(score * log2_scale - origin);
        sum[column] += score;
      }
    }
    state.sum[row] = state.sum[row] * correction[row] + (sum[0] + sum[1]);
  }
}

}  // namespace headrace::attention
