// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general.h"

#include <algorithm>

#include "attention/cuda/general_instances.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/device_properties.h"
#include "tensor/cuda/launch.h"

namespace headrace::attention {
namespace {

// A window this wide is none; smaller ones leave room for sums in 32 bits.
constexpr int32_t kWidestWindow = 1 << 30;

GeneralInstance find_instance(const GeneralConfig& config) {
  using Table = GeneralInstance (*[3])(bool wide);  // D 64, 128, 256
  static constexpr Table kBf16 = {general_bf16_bf16_d64, general_bf16_bf16_d128,
                                  general_bf16_bf16_d256};
  static constexpr Table kFp16 = {general_fp16_fp16_d64, general_fp16_fp16_d128,
                                  general_fp16_fp16_d256};
  static constexpr Table kBf16Fp8 = {general_bf16_fp8_d64, general_bf16_fp8_d128,
                                     general_bf16_fp8_d256};
  static constexpr Table kFp16Fp8 = {general_fp16_fp8_d64, general_fp16_fp8_d128,
                                     general_fp16_fp8_d256};
  const bool is_bf16 = config.io_dtype == DType::kBF16;
  const bool is_fp8 = config.kv_dtype == DType::kFP8E4M3;
  const Table& table = is_fp8 ? (is_bf16 ? kBf16Fp8 : kFp16Fp8) : (is_bf16 ? kBf16 : kFp16);
  return table[config.head_dim == 64 ? 0 : config.head_dim == 128 ? 1 : 2](config.wide);
}

bool is_multiple(const void* address, int64_t of) {
  return reinterpret_cast<intptr_t>(address) % of == 0;
}

}  // namespace

Result<GeneralLaunch> prepare_general(const AttentionParams& params, RowSet rows,
                                      WorkQueue* queue) {
  HEADRACE_ASSIGN_OR_RETURN(const GpuProperties gpu, gpu_properties());
  GeneralLaunch launch;
  HEADRACE_ASSIGN_OR_RETURN(launch.config, choose_general(params, gpu.max_shared_bytes));
  const GeneralInstance instance = find_instance(launch.config);
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instance.shared_bytes));
  const int32_t group = params.heads.num_q_heads / params.heads.num_kv_heads;
  launch.params = {.attention = params,
                   .rows = rows,
                   .queue = queue,
                   .group = group,
                   .by_group = metadata::FastDivisor(group),
                   .by_page_size = metadata::FastDivisor(params.cache.page_size),
                   .window = params.window < kWidestWindow ? params.window : 0,
                   .async = launch.config.async,
                   .vector_q = is_multiple(params.q, 16) && params.q_stride % 8 == 0,
                   .vector_out = is_multiple(params.out, 4) && params.out_stride % 2 == 0};
  launch.kernel = instance.kernel;
  // Never more than there can be items in a step within the limits.
  const metadata::Limits& limits = params.step.limits;
  const GeneralTile tile = general_tile(launch.config.head_dim, launch.config.wide);
  const int64_t items = (int64_t{limits.max_tokens} * group / tile.queries() + limits.max_rows) *
                        params.heads.num_kv_heads;
  launch.num_blocks = static_cast<int32_t>(std::clamp<int64_t>(
      items, 1, int64_t{gpu.num_multiprocessors} * tile.blocks_per_multiprocessor));
  launch.num_threads = instance.num_threads;
  launch.shared_bytes = instance.shared_bytes;
  return launch;
}

Status launch_general(cudaStream_t stream, const GeneralLaunch& launch) {
  return launch_kernel(stream,
                       {.grid = dim3(launch.num_blocks),
                        .block = dim3(launch.num_threads),
                        .shared_bytes = static_cast<size_t>(launch.shared_bytes)},
                       "launch of general attention", launch.kernel, launch.params);
}

}  // namespace headrace::attention
