// SPDX-License-Identifier: Apache-2.0
// The state of a warpgroup of the scan between registers and slots: 64 rows (value columns) of one
// head's S as wgmma accumulators. Knows nothing of chunks.
//
// Thread t of warp w holds, of rows 16 w + t % 32 / 4 and 8 below it, columns 8 j + 2 (t % 4) and
// the next one: s[4 j + 0, 1] of the upper row, s[4 j + 2, 3] of the lower.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "gdn/cuda/prefill_params.cuh"
#include "gdn/cuda/prefill_traits.cuh"
#include "gdn/gates.h"
#include "gdn/row_state.h"
#include "tensor/cuda/element.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::gdn {

template <typename T>
__device__ __forceinline__ float2 unpack(uint32_t pair);
template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
}
template <>
__device__ __forceinline__ float2 unpack<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

template <typename Element>
class ScanState {
 public:
  __device__ __forceinline__ ScanState(const PrefillKernelParams& params, int32_t head,
                                       int32_t slice)
      : params_(params),
        head_(head),
        first_row_(64 * slice + static_cast<int32_t>(threadIdx.x % 128) / 32 * 16 +
                   static_cast<int32_t>(threadIdx.x % 32) / 4),
        first_column_(2 * static_cast<int32_t>(threadIdx.x % 4)) {}

  // The state that the row starts from, after the accepted tokens of its pending window.
  __device__ __forceinline__ void begin(const RowState& row, float (&s)[64]) const {
    if (row.initial_slot == metadata::kNullSlot) {
#pragma unroll
      for (int i = 0; i < 64; ++i) s[i] = 0.0f;
      return;
    }
    load(row.initial_slot, s);
    for (int32_t t = 0; t < row.num_replayed; ++t) replay(row.initial_slot, t, s);
  }
  // After `position` tokens of its sequence: to the slots of the row's checkpoints there.
  __device__ __forceinline__ void keep(int32_t row, int64_t position, const float (&s)[64]) const {
    for_each_checkpoint(params_.step, row, position - 1, position,
                        [&](int64_t, int32_t slot) { store(slot, s); });
  }
  __device__ __forceinline__ void end(const RowState& row, const float (&s)[64]) const {
    if (row.final_slot != metadata::kNullSlot) store(row.final_slot, s);
  }

 private:
  // In elements of the state from the slot's first.
  __device__ __forceinline__ int32_t offset(int j, int half) const {
    return (first_row_ + 8 * half) * kPrefillHeadDim + 8 * j + first_column_;
  }
  template <typename T>
  __device__ __forceinline__ T* head_state(int32_t slot) const {
    return reinterpret_cast<T*>(slot_data(params_.slots, slot) + params_.layout.state) +
           int64_t{head_} * (kPrefillHeadDim * kPrefillHeadDim);
  }

  __device__ __forceinline__ void load(int32_t slot, float (&s)[64]) const {
    if (params_.slots.state_dtype == DType::kF32) {
      const float* from = head_state<float>(slot);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(from + offset(i / 2, i % 2));
        s[2 * i] = pair.x;
        s[2 * i + 1] = pair.y;
      }
    } else {
      const auto* from = head_state<__nv_bfloat16>(slot);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const float2 pair =
            unpack<__nv_bfloat16>(*reinterpret_cast<const uint32_t*>(from + offset(i / 2, i % 2)));
        s[2 * i] = pair.x;
        s[2 * i + 1] = pair.y;
      }
    }
  }
  __device__ __forceinline__ void store(int32_t slot, const float (&s)[64]) const {
    if (params_.slots.state_dtype == DType::kF32) {
      float* to = head_state<float>(slot);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        *reinterpret_cast<float2*>(to + offset(i / 2, i % 2)) = {s[2 * i], s[2 * i + 1]};
      }
    } else {
      auto* to = head_state<__nv_bfloat16>(slot);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        *reinterpret_cast<uint32_t*>(to + offset(i / 2, i % 2)) =
            ptx::pack<__nv_bfloat16>(s[2 * i], s[2 * i + 1]);
      }
    }
  }

  // Token t of the slot's pending window: S ← αS + β(v − αSk)kᵀ. Rare and short.
  __device__ __forceinline__ void replay(int32_t slot, int32_t t, float (&s)[64]) const {
    const float* words = slot_data(params_.slots, slot);
    const auto* keys = reinterpret_cast<const Element*>(words + params_.layout.pending_k) +
                       (t * params_.num_k_heads + head_ / params_.group_size) * kPrefillHeadDim;
    const auto* values = reinterpret_cast<const Element*>(words + params_.layout.pending_v) +
                         (t * params_.num_v_heads + head_) * kPrefillHeadDim;
    const int32_t gate_at = t * params_.num_v_heads + head_;
    const float alpha = ptx::exp2_approx(words[params_.layout.pending_g + gate_at] * kLog2E);
    const float beta = words[params_.layout.pending_beta + gate_at];
    float2 products{0.0f, 0.0f};  // (αSk) of the two rows
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float2 k =
          unpack<Element>(*reinterpret_cast<const uint32_t*>(keys + 8 * j + first_column_));
#pragma unroll
      for (int e = 0; e < 4; ++e) s[4 * j + e] *= alpha;
      products.x += s[4 * j + 0] * k.x + s[4 * j + 1] * k.y;
      products.y += s[4 * j + 2] * k.x + s[4 * j + 3] * k.y;
    }
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
      products.x += __shfl_xor_sync(0xFFFFFFFF, products.x, distance);
      products.y += __shfl_xor_sync(0xFFFFFFFF, products.y, distance);
    }
    const float upper = beta * (static_cast<float>(values[first_row_]) - products.x);
    const float lower = beta * (static_cast<float>(values[first_row_ + 8]) - products.y);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float2 k =
          unpack<Element>(*reinterpret_cast<const uint32_t*>(keys + 8 * j + first_column_));
      s[4 * j + 0] += upper * k.x;
      s[4 * j + 1] += upper * k.y;
      s[4 * j + 2] += lower * k.x;
      s[4 * j + 3] += lower * k.y;
    }
  }

  const PrefillKernelParams& params_;
  const int32_t head_;
  const int32_t first_row_;
  const int32_t first_column_;
};

}  // namespace headrace::gdn
