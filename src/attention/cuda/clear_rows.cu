// SPDX-License-Identifier: Apache-2.0
// A block a row; its threads take the elements of its tokens in turn.
#include "attention/cuda/clear_rows.h"

#include "tensor/cuda/element.cuh"
#include "tensor/cuda/launch.h"

namespace headrace::attention {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    clear_rows_kernel(AttentionParams params, const uint8_t* keyless) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  if (keyless[row] == 0) return;
  const int64_t begin = params.step.query_start_i64[row];
  const int64_t end = begin + params.step.query_len[row];
  const int64_t heads = params.heads.num_q_heads;
  const int64_t width = heads * params.heads.head_dim;
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t i = threadIdx.x; i < width; i += kThreads) {
      store_element(params.out, params.io_dtype, token * params.out_stride + i, 0.0f);
    }
    for (int64_t i = threadIdx.x; params.lse != nullptr && i < heads; i += kThreads) {
      params.lse[token * heads + i] = -INFINITY;
    }
  }
}

}  // namespace

Status launch_clear_rows(cudaStream_t stream, const AttentionParams& params,
                         const uint8_t* keyless) {
  return launch_kernel(
      stream, {.grid = dim3(static_cast<uint32_t>(params.step.limits.max_rows)), .block = kThreads},
      "launch of clear_rows", clear_rows_kernel, params, keyless);
}

}  // namespace headrace::attention
