// SPDX-License-Identifier: Apache-2.0
// What a warp of the general kernel computes: kRowTiles · 16 queries over the tiles of keys and
// values in shared memory, by 16 × 8 × 16 products of the tensor cores. Scores, weights and output
// stay in registers: in tile n of 8 columns a thread has elements 2·(lane % 4), +1 of row lane / 4
// (indices 4n, 4n + 1) and of the row eight below (4n + 2, 4n + 3). Knows nothing of pages.
#pragma once

#include <cstdint>

#include "attention/cuda/general_load.cuh"
#include "attention/cuda/general_params.cuh"
#include "attention/cuda/general_traits.cuh"
#include "attention/cuda/prefill_softmax.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

template <typename Traits>
class GeneralCompute {
 public:
  using Shared = GeneralShared<Traits>;
  using Io = typename Traits::Io;
  using Mma = typename Traits::Mma;

  __device__ __forceinline__ GeneralCompute(const GeneralParams& params, Shared& shared,
                                            const GeneralItem& item)
      : params_(params),
        shared_(shared),
        item_(item),
        query_address_(rows_first(shared.queries + first_query() * Traits::kHeadDim)) {
    const AttentionParams& attention = params.attention;
    const float key_scale = scale_of(attention.cache.key_scale);
    // Never zero: a hidden key's −inf stays −inf.
    const float scale = fmaxf(fabsf(attention.scale * key_scale), kSmallestScale);
    if (attention.soft_cap > 0.0f) {
      cap_scale_ = scale / attention.soft_cap * 2.0f * kLog2E;
      log2_scale_ = attention.soft_cap * kLog2E;
    } else {
      log2_scale_ = scale * kLog2E;
    }
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) begin_row(m, half);
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) out_[m][i] = 0.0f;
    }
  }

  __device__ __forceinline__ void run(int32_t tile, int stage, bool whole) {
    if (first_query() >= item_.num_queries) return;
    float scores[Traits::kRowTiles][kScores];
    multiply_keys(shared_.keys[stage], scores);
    bool raised = false;
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
      if (cap_scale_ > 0.0f) cap_scores(scores[m], cap_scale_);
      if (!whole) mask(tile, m, scores[m]);
    }
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) raised |= raise_max(m, half, scores[m]);
    }
    if (__any_sync(0xFFFFFFFF, raised)) {
#pragma unroll
      for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) out_[m][i] *= correction_[m][i / 2 % 2];
      }
    }
    multiply_values(shared_.values[stage], scores);
  }

  __device__ __forceinline__ void store() const {
    const float value_scale = scale_of(params_.attention.cache.value_scale);
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = quad_sum(state_[m].sum[half]);
        if (query(m, half) < item_.num_queries) store_row(m, half, sum, value_scale);
      }
    }
  }

 private:
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kLn2 = 0.693147181f;
  static constexpr float kSmallestScale = 1e-30f;
  static constexpr float kSlack = 8.0f;
  static constexpr int kScores = Traits::kKeys / 2;  // of a thread and row tile
  static constexpr int kOutputs = Traits::kHeadDim / 2;

  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }
  __device__ static int32_t first_query() {
    return static_cast<int32_t>(threadIdx.x / 32) * Traits::kWarpQueries;
  }
  // The thread's row, a query of the item.
  __device__ static int32_t query(int m, int half) {
    return first_query() + 16 * m + lane() / 4 + 8 * half;
  }
  __device__ __forceinline__ int32_t token_of(int32_t query) const {
    return params_.by_group.quotient(item_.first_query + query);
  }
  __device__ __forceinline__ int32_t head_of(int32_t query) const {
    return item_.kv_head * params_.group + params_.by_group.remainder(item_.first_query + query);
  }
  __device__ __forceinline__ float scale_of(const float* scales) const {
    return scales == nullptr
               ? 1.0f
               : scales[int64_t{item_.kv_head} * params_.attention.cache.scale_stride];
  }

  // The maximum of a row only keeps weights from overflowing: it is raised, and sums so far
  // corrected, when the tile's exceeds it by a factor of 2^kSlack in weight.
  __device__ __forceinline__ bool raise_max(int m, int half, const float (&scores)[kScores]) {
    float max = fmaxf(scores[2 * half], scores[2 * half + 1]);
#pragma unroll
    for (int i = 4; i < kScores; i += 4) {
      max = fmaxf(max, fmaxf(scores[i + 2 * half], scores[i + 2 * half + 1]));
    }
    max = quad_max(max);
    float& so_far = state_[m].max[half];
    const bool raised = (max - so_far) * log2_scale_ > kSlack;
    correction_[m][half] = raised ? ptx::exp2_approx((so_far - max) * log2_scale_) : 1.0f;
    state_[m].sum[half] *= correction_[m][half];
    if (raised) so_far = max;
    return raised;
  }

  // A sink is a key with value 0 that was seen before all others.
  __device__ __forceinline__ void begin_row(int m, int half) {
    float max = -INFINITY;
    float sum = 0.0f;
    if (params_.attention.sinks != nullptr && query(m, half) < item_.num_queries) {
      max = params_.attention.sinks[head_of(query(m, half))] * kLog2E / log2_scale_;
      if (max > -INFINITY && lane() % 4 == 0) sum = 1.0f;
    }
    state_[m].max[half] = max;
    state_[m].sum[half] = sum;
  }

  // Address of what the lane points at in the 8 × 8 matrices at (0, 0): lanes 8…15 a row of 8
  // further down and lanes 16…31 a chunk to the right, or the other way round. Lines are aligned to
  // their length, so that column c is found by XOR with its bytes.
  __device__ __forceinline__ static uint32_t rows_first(const Mma* matrix) {
    return ptx::shared_address(matrix + chunked<Traits::kHeadDim>(lane() % 16, lane() / 16 * 8));
  }
  __device__ __forceinline__ static uint32_t columns_first(const Mma* matrix) {
    return ptx::shared_address(
        matrix + chunked<Traits::kHeadDim>(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2 * 8));
  }
  __device__ __forceinline__ static uint32_t at(uint32_t address, int row, int column) {
    constexpr int kBytes = sizeof(Mma);
    return (address ^ column * kBytes) + row * Traits::kHeadDim * kBytes;
  }

  __device__ __forceinline__ void multiply_keys(const Mma* keys,
                                                float (&scores)[Traits::kRowTiles][kScores]) {
    const uint32_t address = columns_first(keys);
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) scores[m][i] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < Traits::kHeadDim; k += 16) {
      uint32_t a[Traits::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Traits::kRowTiles; ++m) {
        ptx::load_matrices(at(query_address_, 16 * m, k), a[m]);
      }
#pragma unroll
      for (int n = 0; n < Traits::kKeys; n += 16) {
        uint32_t b[4];
        ptx::load_matrices(at(address, n, k), b);
#pragma unroll
        for (int m = 0; m < Traits::kRowTiles; ++m) {
          multiply(scores[m], n / 8, a[m], b[0], b[1]);
          multiply(scores[m], n / 8 + 1, a[m], b[2], b[3]);
        }
      }
    }
  }

  // Weights are made 16 keys at a time, beside the products of the 16 keys before.
  __device__ __forceinline__ void multiply_values(const Mma* values,
                                                  float (&scores)[Traits::kRowTiles][kScores]) {
    const uint32_t address = rows_first(values);
    float origin[Traits::kRowTiles][2];
#pragma unroll
    for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float max = state_[m].max[half];
        origin[m][half] = max == -INFINITY ? 0.0f : max * log2_scale_;
      }
    }
#pragma unroll
    for (int k = 0; k < Traits::kKeys; k += 16) {
      uint32_t a[Traits::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Traits::kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float low =
              ptx::exp2_approx(scores[m][k / 2 + 2 * i] * log2_scale_ - origin[m][i % 2]);
          const float high =
              ptx::exp2_approx(scores[m][k / 2 + 2 * i + 1] * log2_scale_ - origin[m][i % 2]);
          state_[m].sum[i % 2] += low + high;
          a[m][i] = ptx::pack<Mma>(low, high);
        }
      }
#pragma unroll
      for (int n = 0; n < Traits::kHeadDim; n += 16) {
        uint32_t b[4];
        ptx::load_matrices_transposed(at(address, k, n), b);
#pragma unroll
        for (int m = 0; m < Traits::kRowTiles; ++m) {
          multiply(out_[m], n / 8, a[m], b[0], b[1]);
          multiply(out_[m], n / 8 + 1, a[m], b[2], b[3]);
        }
      }
    }
  }

  // Columns 8n…8n + 7 of a row tile.
  template <int kCount>
  __device__ __forceinline__ static void multiply(float (&sums)[kCount], int n,
                                                  const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    ptx::multiply_add<Mma>(*reinterpret_cast<float(*)[4]>(&sums[4 * n]), a, b0, b1);
  }

  // Scores of keys that a row does not see become −inf.
  __device__ __forceinline__ void mask(int32_t tile, int m, float (&scores)[kScores]) const {
    const int32_t first_key = tile * Traits::kKeys;
    const auto window = static_cast<uint32_t>(params_.window > 0 ? params_.window : INT32_MAX);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Of the thread's first column.
      const int32_t behind =
          item_.context_len + token_of(query(m, half)) - first_key - 2 * (lane() % 4);
#pragma unroll
      for (int i = 0; i < kScores; i += 4) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          if (static_cast<uint32_t>(behind - 2 * i - column) >= window) {
            scores[i + 2 * half + column] = -INFINITY;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store_row(int m, int half, float sum, float value_scale) const {
    const AttentionParams& attention = params_.attention;
    const int32_t head = head_of(query(m, half));
    const int64_t token = item_.query_start + token_of(query(m, half));
    const float factor = sum > 0.0f ? value_scale / sum : 0.0f;
    Io* to = static_cast<Io*>(attention.out) + token * attention.out_stride +
             int64_t{head} * Traits::kHeadDim + 2 * (lane() % 4);
#pragma unroll
    for (int i = 0; i < kOutputs / 4; ++i) {
      const float low = out_[m][4 * i + 2 * half] * factor;
      const float high = out_[m][4 * i + 2 * half + 1] * factor;
      if (params_.vector_out) {
        *reinterpret_cast<uint32_t*>(to + 8 * i) = ptx::pack<Io>(low, high);
      } else {
        to[8 * i] = static_cast<Io>(low);
        to[8 * i + 1] = static_cast<Io>(high);
      }
    }
    if (attention.lse != nullptr && lane() % 4 == 0) {
      attention.lse[token * attention.heads.num_q_heads + head] =
          sum > 0.0f ? state_[m].max[half] * log2_scale_ * kLn2 + logf(sum) : -INFINITY;
    }
  }

  const GeneralParams& params_;
  Shared& shared_;
  const GeneralItem& item_;
  const uint32_t query_address_;
  float cap_scale_ = 0.0f;                  // of a score that becomes tanh; 0: none does
  float log2_scale_;                        // then it counts 2^(score · log2_scale)
  float correction_[Traits::kRowTiles][2];  // of the tile at hand
  PrefillSoftmax state_[Traits::kRowTiles];
  float out_[Traits::kRowTiles][kOutputs];
};

}  // namespace headrace::attention
