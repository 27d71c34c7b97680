// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill.h"

#include <algorithm>

#include "attention/cuda/prefill_config.h"
#include "attention/cuda/prefill_instances.h"
#include "attention/cuda/prefill_params.cuh"
#include "tensor/cuda/cuda_error.h"

namespace headrace::attention {
namespace {

Result<int> count_multiprocessors() {
  int device = 0;
  int count = 0;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

// Never more than there can be pieces of work in a step within the limits.
int count_blocks(const AttentionParams& params, const PrefillConfig& config,
                 int num_multiprocessors) {
  const metadata::Limits& limits = params.step.limits;
  const int64_t pieces = (int64_t{limits.max_tokens} / config.tile.queries() + limits.max_rows) *
                         params.heads.num_q_heads;
  return static_cast<int>(std::clamp<int64_t>(pieces, 1, num_multiprocessors));
}

using Launch = Status (*)(cudaStream_t, const PrefillKernelParams&, bool, int);

Launch find_launch(const PrefillConfig& config) {
  const bool bf16 = config.dtype == DType::kBF16;
  switch (config.head_dim) {
    case 64:
      return bf16 ? launch_prefill_bf16_d64 : launch_prefill_fp16_d64;
    case 128:
      return bf16 ? launch_prefill_bf16_d128 : launch_prefill_fp16_d128;
    default:
      return bf16 ? launch_prefill_bf16_d256 : launch_prefill_fp16_d256;
  }
}

}  // namespace

Status launch_prefill(cudaStream_t stream, const AttentionParams& params, PrefillQueue* queue) {
  static const Result<int> num_multiprocessors = count_multiprocessors();
  HEADRACE_RETURN_IF_ERROR(num_multiprocessors.status());
  HEADRACE_ASSIGN_OR_RETURN(const PrefillConfig config, choose_prefill_kernel(params));
  HEADRACE_ASSIGN_OR_RETURN(const PrefillKernelParams kernel_params,
                            make_prefill_params(params, config, queue));
  return find_launch(config)(stream, kernel_params, config.soft_cap,
                             count_blocks(params, config, num_multiprocessors.value()));
}

}  // namespace headrace::attention
