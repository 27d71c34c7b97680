// SPDX-License-Identifier: Apache-2.0
// Attention as the equation reads, in fp32:
//   o = softmax(scale · q Kᵀ [soft-capped] [+ sink]) V.
// Grid [T, Hq], a block a token and query head. Keys go in tiles of kPlainKeys absolute positions,
// so that the order of sums depends on positions alone:
//   scores    a warp a key, lanes over D
//   o         a thread a dim, over the keys of the tile
// with the running maximum and sum of the softmax held by every thread. Each element is loaded by
// itself, so no stride or alignment is wrong; offsets are 64-bit.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "attention/attention_params.h"
#include "attention/cuda/row_set.h"

namespace headrace::attention {

inline constexpr int kPlainThreads = 128;
inline constexpr int kPlainKeys = 64;  // of a tile

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
template <typename T>
__device__ __forceinline__ T from_float(float x) {
  return static_cast<T>(x);
}

__device__ __forceinline__ bool is_in(RowSet rows, metadata::RowKind kind) {
  return rows == RowSet::kAll ||
         (rows == RowSet::kPrefill) == (kind == metadata::RowKind::kPrefill);
}

template <typename Io, typename Kv>
__global__ void __launch_bounds__(kPlainThreads)
    plain_kernel(const __grid_constant__ AttentionParams params, RowSet rows) {
  extern __shared__ float vectors[];  // q [D], o [D]
  __shared__ float scores[kPlainKeys];
  __shared__ int64_t offsets[kPlainKeys];  // of the keys' head vectors
  const metadata::StepView& step = params.step;
  const KvCache& cache = params.cache;
  const auto token = static_cast<int64_t>(blockIdx.x);
  const auto head = static_cast<int32_t>(blockIdx.y);
  const int32_t head_dim = params.heads.head_dim;
  const int32_t row = step.token_row[token];
  if (!is_in(rows, row < 0 ? metadata::RowKind::kPadding : step.kind[row])) return;

  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t lane = thread % 32;
  const int32_t warp = thread / 32;
  const int32_t kv_head = head / (params.heads.num_q_heads / params.heads.num_kv_heads);
  const int64_t scale_at = int64_t{kv_head} * cache.scale_stride;
  const float key_scale = cache.key_scale != nullptr ? cache.key_scale[scale_at] : 1.0f;
  const float value_scale = cache.value_scale != nullptr ? cache.value_scale[scale_at] : 1.0f;
  const auto* data = static_cast<const Kv*>(cache.data);
  float* q = vectors;
  float* out = vectors + head_dim;

  // A padding token sees no key and no sink.
  const int32_t end = row < 0 ? 0 : step.token_position[token] + 1;
  const int32_t begin = params.window > 0 ? max(0, end - params.window) : 0;
  const int32_t* pages = step.page_table + int64_t{row} * step.limits.max_pages_per_row;
  float maximum = -INFINITY;
  float sum = 0.0f;
  if (params.sinks != nullptr && row >= 0 && params.sinks[head] > -INFINITY) {
    maximum = params.sinks[head];
    sum = 1.0f;
  }
  for (int32_t d = thread; d < head_dim; d += kPlainThreads) {
    const auto* from = static_cast<const Io*>(params.q) + token * params.q_stride;
    q[d] = row < 0 ? 0.0f : to_float(from[int64_t{head} * head_dim + d]);
    out[d] = 0.0f;
  }

  for (int32_t tile = begin / kPlainKeys * kPlainKeys; tile < end; tile += kPlainKeys) {
    const int32_t first = max(begin, tile);
    const int32_t count = min(end, tile + kPlainKeys) - first;
    __syncthreads();
    if (thread < count) {
      const int32_t position = first + thread;
      const int32_t page = position / cache.page_size;
      offsets[thread] = pages[page] * cache.page_stride +
                        (position - page * cache.page_size) * cache.token_stride +
                        kv_head * cache.head_stride;
    }
    __syncthreads();
    for (int32_t i = warp; i < count; i += kPlainThreads / 32) {
      float dot = 0.0f;
      for (int32_t d = lane; d < head_dim; d += 32) dot += q[d] * to_float(data[offsets[i] + d]);
      for (int distance = 16; distance > 0; distance /= 2) {
        dot += __shfl_xor_sync(0xFFFFFFFF, dot, distance);
      }
      dot *= params.scale * key_scale;
      if (params.soft_cap > 0.0f) dot = params.soft_cap * tanhf(dot / params.soft_cap);
      if (lane == 0) scores[i] = dot;
    }
    __syncthreads();
    float new_maximum = maximum;
    for (int32_t i = 0; i < count; ++i) new_maximum = fmaxf(new_maximum, scores[i]);
    if (new_maximum == -INFINITY) continue;  // nothing seen so far has any weight
    const float correction = expf(maximum - new_maximum);
    maximum = new_maximum;
    __syncthreads();
    if (thread < count) scores[thread] = expf(scores[thread] - maximum);
    __syncthreads();
    sum *= correction;
    for (int32_t i = 0; i < count; ++i) sum += scores[i];
    for (int32_t d = thread; d < head_dim; d += kPlainThreads) {
      float element = out[d] * correction;
      for (int32_t i = 0; i < count; ++i) {
        element += scores[i] * to_float(data[offsets[i] + cache.value_offset + d]);
      }
      out[d] = element;
    }
  }

  const float factor = sum > 0.0f ? value_scale / sum : 0.0f;
  Io* to = static_cast<Io*>(params.out) + token * params.out_stride + int64_t{head} * head_dim;
  for (int32_t d = thread; d < head_dim; d += kPlainThreads)
    to[d] = from_float<Io>(out[d] * factor);
  if (params.lse != nullptr && thread == 0) {
    params.lse[token * params.heads.num_q_heads + head] =
        sum > 0.0f ? maximum + logf(sum) : -INFINITY;
  }
}

}  // namespace headrace::attention
