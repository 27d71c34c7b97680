// SPDX-License-Identifier: Apache-2.0
// A token's head vectors, from the packed projection to where attention finds them:
//   q, k ← x · rsqrt(mean x² + ε) · (w + offset)   where the model has such a norm
//   (x_i, x_{i+r/2}) ← (x_i cos − x_{i+r/2} sin, x_{i+r/2} cos + x_i sin),  i < r/2, r = rotary dim
//   q → q_out [T, Hq, D];  k, v → the token's place in its page
// Heads are numbered q, k, v. Grid [token blocks, head blocks]: block (x, y) treats the heads of
// its share y of tokens x, x + gridDim.x, …, so that all its heads share the token's cosines.
#pragma once

#include "attention/kv_cache.h"
#include "ops/cuda/qkv_rope_write_config.h"
#include "ops/ops_params.h"
#include "tensor/cuda/element.cuh"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/race_delay.cuh"

namespace headrace::ops {

struct QkvHead {
  int32_t number = 0;
  const QkvRopeWriteParams& params;

  __device__ bool exists() const {
    return number < params.heads.num_q_heads + 2 * params.heads.num_kv_heads;
  }
  __device__ bool is_query() const { return number < params.heads.num_q_heads; }
  __device__ bool is_value() const {
    return number >= params.heads.num_q_heads + params.heads.num_kv_heads;
  }
  // Null for a head that is not normed.
  __device__ const float* norm_weight() const {
    return is_query() ? params.q_norm_weight : is_value() ? nullptr : params.k_norm_weight;
  }
  // First element of the head in the token's projection.
  __device__ int64_t source() const {
    const int32_t num_q = params.heads.num_q_heads;
    const int32_t per_query = params.has_gate ? 2 : 1;
    const int32_t heads_before =
        is_query() ? number * per_query : num_q * per_query + (number - num_q);
    return int64_t{heads_before} * params.heads.head_dim;
  }
  __device__ int32_t kv_head() const {
    const int32_t nth = number - params.heads.num_q_heads;
    return is_value() ? nth - params.heads.num_kv_heads : nth;
  }
  // First element in the cache of a k or v head of the token with this slot mapping.
  __device__ int64_t cache_offset(int64_t slot) const {
    return attention::key_offset_of_slot(params.cache, slot, kv_head()) +
           (is_value() ? params.cache.value_offset : 0);
  }
  // What an element of an fp8 cache is multiplied with before it is rounded.
  __device__ float cache_factor() const {
    const float* scale = is_value() ? params.cache.value_scale : params.cache.key_scale;
    return scale == nullptr ? 1.0f : 1.0f / scale[kv_head() * params.cache.scale_stride];
  }
};

// cos and sin of pair i of a position. The angle is an fp32 product: that is how models are
// trained.
__device__ inline float2 rotation_of(const RopeTable& rope, int32_t position, int32_t i) {
  float2 rotation;  // cos, sin
  sincosf(static_cast<float>(position) * rope.inv_freq[i], &rotation.y, &rotation.x);
  rotation.x *= rope.attention_factor;
  rotation.y *= rope.attention_factor;
  return rotation;
}

// D / 8 lanes a head, 8 consecutive elements a lane. r is a multiple of 16, so that the other
// element of a pair lies at the same place in another lane. kRaceDelays: for tests, see
// tensor/cuda/race_delay.cuh.
template <typename Io, typename Kv, int kHeadDim, bool kRaceDelays = false>
__global__ void __launch_bounds__(kQkvRopeWriteThreads)
    qkv_rope_write_kernel(const __grid_constant__ QkvRopeWriteParams params, bool early_metadata) {
  constexpr int kLanes = kHeadDim / 8;
  __shared__ float2 rotations[kHeadDim / 2];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t lane = thread % kLanes;
  const QkvHead head{
      static_cast<int32_t>(blockIdx.y) * (kQkvRopeWriteThreads / kLanes) + thread / kLanes, params};
  const int32_t half = params.rope.rotary_dim / 2;

  const float* norm_weight = head.exists() ? head.norm_weight() : nullptr;
  float weight[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    weight[i] =
        norm_weight == nullptr ? 1.0f : norm_weight[lane * 8 + i] + params.norm_weight_offset;
  }

  const auto rotate_for = [&](int32_t token) {
    if (thread < half) {
      rotations[thread] = rotation_of(params.rope, params.step.token_position[token], thread);
    }
  };
  if (!early_metadata) ptx::wait_for_dependencies();
  const int32_t num_tokens = params.step.counts->num_tokens;
  auto token = static_cast<int32_t>(blockIdx.x);
  if (token < num_tokens) rotate_for(token);
  if (early_metadata) ptx::wait_for_dependencies();
  ptx::launch_dependents();

  while (token < num_tokens) {
    __syncthreads();
    const int64_t slot = params.step.slot_mapping[token];
    float x[8] = {};
    if (head.exists()) {
      load_eight(static_cast<const Io*>(params.projection) + token * params.projection_stride +
                     head.source() + lane * 8,
                 x);
    }
    if (norm_weight != nullptr) {
      float squares = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
      // Lanes of a head are all here: they have the same weights.
      const uint32_t lanes = (0xffffffffu >> (32 - kLanes))
                             << (static_cast<uint32_t>(thread) % 32 / kLanes * kLanes);
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        squares += __shfl_xor_sync(lanes, squares, distance, kLanes);
      }
      const float factor = rsqrtf(squares / kHeadDim + params.norm_eps);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] *= factor * weight[i];
    }
    const bool second = lane * 8 >= half;
    const int32_t partner = second ? lane - half / 8 : lane + half / 8;
    const bool rotates = !head.is_value() && lane * 8 < 2 * half;
    const int32_t first_pair = lane * 8 - (second ? half : 0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float other = __shfl_sync(0xffffffffu, x[i], partner, kLanes);
      if (rotates) {
        const float2 rotation = rotations[first_pair + i];
        x[i] = x[i] * rotation.x + (second ? other : -other) * rotation.y;
      }
    }
    race_delay<kRaceDelays>();
    if (head.exists() && head.is_query()) {
      const int64_t vector = int64_t{token} * params.heads.num_q_heads + head.number;
      store_eight(static_cast<Io*>(params.q_out) + vector * kHeadDim + lane * 8, x);
    } else if (head.exists() && slot >= 0) {
      if constexpr (sizeof(Kv) == 1) {
        const float factor = head.cache_factor();
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= factor;
      }
      store_eight(static_cast<Kv*>(params.cache.data) + head.cache_offset(slot) + lane * 8, x);
    }
    token += static_cast<int32_t>(gridDim.x);
    if (token < num_tokens) {
      __syncthreads();
      rotate_for(token);
    }
  }
}

}  // namespace headrace::ops
