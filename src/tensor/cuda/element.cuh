// SPDX-License-Identifier: Apache-2.0
// Floating-point elements in device memory to fp32 and back: one at a time with the type known at
// run time, eight at a time with the type known at compile time. Rounds to nearest even; fp8 takes
// what lies beyond its range to its largest value.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "headrace/dtype.h"

namespace headrace {

__device__ inline float load_element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kBF16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::kF16:
      return __half2float(static_cast<const __half*>(data)[i]);
    case DType::kFP8E4M3:
      return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

__device__ inline void store_element(void* data, DType dtype, int64_t i, float value) {
  switch (dtype) {
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
      break;
    case DType::kF16:
      static_cast<__half*>(data)[i] = __float2half_rn(value);
      break;
    case DType::kFP8E4M3:
      static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

// As many elements as one vector of the type's kind holds; aligned to their size.
template <typename T>
struct alignas(8 * sizeof(T)) Eight {
  T values[8];
};

template <typename T>
__device__ __forceinline__ void load_eight(const T* from, float (&to)[8]) {
  const Eight<T> eight = *reinterpret_cast<const Eight<T>*>(from);
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = static_cast<float>(eight.values[i]);
}

template <typename T>
__device__ __forceinline__ void store_eight(T* to, const float (&from)[8]) {
  Eight<T> eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight.values[i] = T(from[i]);
  *reinterpret_cast<Eight<T>*>(to) = eight;
}

}  // namespace headrace
