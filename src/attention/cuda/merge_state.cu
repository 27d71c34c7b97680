// SPDX-License-Identifier: Apache-2.0
// A warp a vector: lanes take its elements in turn, eight at a time where the type is a 16-bit one
// and all vectors are aligned.
#include "attention/cuda/merge_state.h"

#include <algorithm>

#include "attention/merge_state.h"
#include "tensor/cuda/element.cuh"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWarps = kThreads / 32;
constexpr int64_t kMaxBlocks = 2112;

// T is void where the type is known at run time only.
template <typename T>
__device__ void merge_vector(const MergeStateParams& params, int64_t vector,
                             const MergeWeights& weights) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int64_t first = vector * params.head_dim;
  if constexpr (std::is_void_v<T>) {
    for (int32_t d = lane; d < params.head_dim; d += 32) {
      const float merged = merge_element(weights, load_element(params.o_a, params.dtype, first + d),
                                         load_element(params.o_b, params.dtype, first + d));
      store_element(params.o, params.dtype, first + d, merged);
    }
  } else {
    for (int32_t d = lane * 8; d < params.head_dim; d += 32 * 8) {
      float a[8];
      float b[8];
      load_eight(static_cast<const T*>(params.o_a) + first + d, a);
      load_eight(static_cast<const T*>(params.o_b) + first + d, b);
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = merge_element(weights, a[i], b[i]);
      store_eight(static_cast<T*>(params.o) + first + d, a);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    merge_state_kernel(const __grid_constant__ MergeStateParams params) {
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  for (int64_t vector = blockIdx.x * kWarps + threadIdx.x / 32; vector < params.num_vectors;
       vector += gridDim.x * kWarps) {
    const MergeWeights weights = merge_weights(params.lse_a[vector], params.lse_b[vector]);
    merge_vector<T>(params, vector, weights);
    __syncwarp();  // lse may be one of those that the other lanes read
    if (threadIdx.x % 32 == 0 && params.lse != nullptr) params.lse[vector] = weights.lse;
  }
}

}  // namespace

Status launch_merge_state(const MergeStateParams& params, void* stream) {
  if (params.num_vectors == 0) return {};
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  const bool vectors = params.head_dim % 8 == 0 && params.dtype != DType::kF32 &&
                       aligned(params.o_a) && aligned(params.o_b) && aligned(params.o);
  const auto kernel = !vectors                       ? merge_state_kernel<void>
                      : params.dtype == DType::kBF16 ? merge_state_kernel<__nv_bfloat16>
                                                     : merge_state_kernel<__half>;
  const int64_t num_blocks = std::min((params.num_vectors + kWarps - 1) / kWarps, kMaxBlocks);
  return launch_kernel(static_cast<cudaStream_t>(stream),
                       {.grid = dim3(static_cast<uint32_t>(num_blocks)), .block = kThreads},
                       "launch of merge_state", kernel, params);
}

}  // namespace headrace::attention
