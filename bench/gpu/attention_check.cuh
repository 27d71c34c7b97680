// SPDX-License-Identifier: Apache-2.0
// Random data, and attention of chosen tokens in fp64 by the plainest kernel that will do: what
// attention_bench --check compares with. Shares nothing with the kernels that it checks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "attention/attention_params.h"

namespace headrace::bench {

__device__ inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ inline void store(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }
__device__ inline void store(__nv_fp8_e4m3& to, float value) { to = __nv_fp8_e4m3(value); }

// Standard normal values, another sequence for each seed.
template <typename T>
__global__ void fill_normal(T* data, int64_t count, uint64_t seed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint64_t bits = mixed(seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(i));
    const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
    const float v = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-24f;
    store(data[i], sqrtf(-2.0f * logf(u)) * cospif(2.0f * v));
  }
}

__device__ inline double element(const attention::KvCache& cache, int64_t at) {
  if (cache.dtype == DType::kFP8E4M3) {
    return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(cache.data)[at]);
  }
  return __bfloat162float(static_cast<const __nv_bfloat16*>(cache.data)[at]);
}

inline constexpr int kExactThreads = 256;

// Block (i, query head): token tokens[i]. A thread a key for the scores of 256 keys, then a thread
// a dim for the weighted sum, with a running maximum. exact [n, Hq, D].
__global__ void exact_attention(attention::AttentionParams params, const int32_t* tokens,
                                double* exact) {
  __shared__ double scores[kExactThreads];
  __shared__ double highest[kExactThreads];
  const int32_t thread = threadIdx.x;
  const int64_t token = tokens[blockIdx.x];
  const int64_t head = blockIdx.y;
  const int64_t head_dim = params.heads.head_dim;
  const attention::KvCache& cache = params.cache;
  const int64_t position = params.step.token_position[token];
  const int32_t* pages =
      params.step.page_table +
      params.step.token_row[token] * static_cast<int64_t>(params.step.limits.max_pages_per_row);
  const auto* q =
      static_cast<const __nv_bfloat16*>(params.q) + token * params.q_stride + head * head_dim;
  const int64_t kv_head = head / (params.heads.num_q_heads / params.heads.num_kv_heads);
  const auto vector_at = [&](int64_t key) {
    return pages[key / cache.page_size] * cache.page_stride +
           key % cache.page_size * cache.token_stride + kv_head * cache.head_stride;
  };
  const double key_scale = cache.key_scale == nullptr ? 1.0 : *cache.key_scale;
  const double value_scale = cache.value_scale == nullptr ? 1.0 : *cache.value_scale;

  double max_score = -INFINITY;
  double sum = 0.0;
  double out = 0.0;
  for (int64_t base = 0; base <= position; base += kExactThreads) {
    double score = -INFINITY;
    if (base + thread <= position) {
      score = 0.0;
      const int64_t at = vector_at(base + thread);
      for (int64_t d = 0; d < head_dim; ++d) {
        score += __bfloat162float(q[d]) * element(cache, at + d);
      }
      score *= params.scale * key_scale;
    }
    highest[thread] = score;
    __syncthreads();
    for (int half = kExactThreads / 2; half > 0; half /= 2) {
      if (thread < half) highest[thread] = fmax(highest[thread], highest[thread + half]);
      __syncthreads();
    }
    const double new_max = fmax(max_score, highest[0]);
    const double shrink = exp(max_score - new_max);
    max_score = new_max;
    scores[thread] = exp(score - max_score);
    sum *= shrink;
    out *= shrink;
    __syncthreads();
    for (int64_t i = 0; i < kExactThreads && base + i <= position; ++i) {
      sum += scores[i];
      if (thread < head_dim) {
        out += scores[i] * element(cache, vector_at(base + i) + cache.value_offset + thread);
      }
    }
    __syncthreads();
  }
  if (thread < head_dim) {
    exact[(static_cast<int64_t>(blockIdx.x) * params.heads.num_q_heads + head) * head_dim +
          thread] = out / sum * value_scale;
  }
}

}  // namespace headrace::bench
