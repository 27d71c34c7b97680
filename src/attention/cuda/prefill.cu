// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill.h"

#include <algorithm>

#include "attention/cuda/prefill_instances.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/device_properties.h"
#include "tensor/cuda/launch.h"

namespace headrace::attention {
namespace {

// Never more than there can be pieces of work in a step within the limits.
int32_t count_blocks(const AttentionParams& params, const PrefillConfig& config,
                     int32_t num_multiprocessors) {
  const metadata::Limits& limits = params.step.limits;
  const int64_t pieces = (int64_t{limits.max_tokens} / config.tile.queries() + limits.max_rows) *
                         params.heads.num_q_heads;
  return static_cast<int32_t>(std::clamp<int64_t>(pieces, 1, num_multiprocessors));
}

PrefillInstance find_instance(const PrefillConfig& config) {
  const bool bf16 = config.dtype == DType::kBF16;
  switch (config.head_dim) {
    case 64:
      return bf16 ? prefill_bf16_d64(config.soft_cap) : prefill_fp16_d64(config.soft_cap);
    case 128:
      return bf16 ? prefill_bf16_d128(config.soft_cap) : prefill_fp16_d128(config.soft_cap);
    default:
      return bf16 ? prefill_bf16_d256(config.soft_cap) : prefill_fp16_d256(config.soft_cap);
  }
}

}  // namespace

Result<PrefillLaunch> prepare_prefill(const AttentionParams& params, WorkQueue* queue) {
  HEADRACE_ASSIGN_OR_RETURN(const GpuProperties gpu, gpu_properties());
  PrefillLaunch launch;
  HEADRACE_ASSIGN_OR_RETURN(launch.config, choose_prefill_kernel(params));
  HEADRACE_ASSIGN_OR_RETURN(launch.params, make_prefill_params(params, launch.config, queue));
  const PrefillInstance instance = find_instance(launch.config);
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instance.shared_bytes));
  launch.kernel = instance.kernel;
  launch.num_blocks = count_blocks(params, launch.config, gpu.num_multiprocessors);
  launch.num_threads = instance.num_threads;
  launch.shared_bytes = instance.shared_bytes;
  return launch;
}

Status launch_prefill(cudaStream_t stream, const PrefillLaunch& launch) {
  return launch_kernel(stream,
                       {.grid = dim3(launch.num_blocks),
                        .block = dim3(launch.num_threads),
                        .shared_bytes = static_cast<size_t>(launch.shared_bytes)},
                       "launch of prefill attention", launch.kernel, launch.params);
}

}  // namespace headrace::attention
