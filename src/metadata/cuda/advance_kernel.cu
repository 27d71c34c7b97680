// SPDX-License-Identifier: Apache-2.0
// Drives the functions of advance.h on the device: a thread a row, a thread a token. No rule lives
// here; build.cc has the same loops for the CPU.
#include "metadata/cuda/advance_kernel.h"
#include "tensor/cuda/launch.h"

namespace headrace::metadata {
namespace {

constexpr int kThreads = 256;

__device__ int32_t thread_of_grid() {
  return static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
}
dim3 blocks_for(int32_t num_threads) { return dim3(ceil_div(num_threads, kThreads)); }

__global__ void __launch_bounds__(kThreads) advance_kernel(AdvanceParams params) {
  const int32_t r = thread_of_grid();
  if (r == 0) advance_step(params);
  if (r < params.step.limits.max_rows) advance_row(params, r);
}

__global__ void __launch_bounds__(kThreads) place_tokens_kernel(PlaceTokensParams params) {
  const int32_t t = thread_of_grid();
  if (t < params.step.limits.max_tokens) place_token(params, t);
}

}  // namespace

Status launch_advance(cudaStream_t stream, const AdvanceParams& params) {
  const LaunchShape shape{.grid = blocks_for(params.step.limits.max_rows), .block = kThreads};
  return launch_kernel(stream, shape, "launch of the metadata advance", advance_kernel, params);
}

Status launch_place_tokens(cudaStream_t stream, const PlaceTokensParams& params) {
  const LaunchShape shape{.grid = blocks_for(params.step.limits.max_tokens), .block = kThreads};
  return launch_kernel(stream, shape, "launch of place_tokens", place_tokens_kernel, params);
}

}  // namespace headrace::metadata
