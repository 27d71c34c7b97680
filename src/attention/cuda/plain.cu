// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/plain.h"

#include "attention/cuda/plain_kernel.cuh"
#include "tensor/cuda/launch.h"

namespace headrace::attention {
namespace {

// Two fp32 vectors of a head in the 48 KB that a block may have without being asked for, less 8.
constexpr int32_t kMaxHeadDim = 5120;

template <typename Io>
PlainKernel kernel_for(DType kv_dtype) {
  switch (kv_dtype) {
    case DType::kF32:
      return plain_kernel<Io, float>;
    case DType::kBF16:
      return plain_kernel<Io, __nv_bfloat16>;
    case DType::kF16:
      return plain_kernel<Io, __half>;
    case DType::kFP8E4M3:
      return plain_kernel<Io, __nv_fp8_e4m3>;
    default:
      return nullptr;
  }
}

PlainKernel kernel_for(DType io_dtype, DType kv_dtype) {
  switch (io_dtype) {
    case DType::kF32:
      return kernel_for<float>(kv_dtype);
    case DType::kBF16:
      return kernel_for<__nv_bfloat16>(kv_dtype);
    case DType::kF16:
      return kernel_for<__half>(kv_dtype);
    default:
      return nullptr;
  }
}

}  // namespace

std::string to_string(const PlainLaunch& launch) {
  const AttentionParams& params = launch.params;
  return std::string("plain ") + dtype_name(params.io_dtype) + ", KV " +
         dtype_name(params.cache.dtype) + ", D " + std::to_string(params.heads.head_dim) + ", " +
         row_set_name(launch.rows);
}

Result<PlainLaunch> prepare_plain(const AttentionParams& params, RowSet rows) {
  if (sets_reserved(params)) return unsupported(kReservedIsSet);
  PlainLaunch launch{.params = params, .rows = rows};
  launch.kernel = kernel_for(params.io_dtype, params.cache.dtype);
  if (launch.kernel == nullptr) {
    return unsupported(std::string("attention with q of ") + dtype_name(params.io_dtype) +
                       " over a cache of " + dtype_name(params.cache.dtype) +
                       ": q is fp32, bf16 or fp16, the cache one of these or fp8_e4m3");
  }
  if (params.heads.head_dim > kMaxHeadDim) {
    return unsupported("head_dim " + std::to_string(params.heads.head_dim) + " is above " +
                       std::to_string(kMaxHeadDim));
  }
  return launch;
}

Status launch_plain(cudaStream_t stream, const PlainLaunch& launch) {
  const AttentionParams& params = launch.params;
  const auto max_tokens = static_cast<uint32_t>(params.step.limits.max_tokens);
  const auto num_heads = static_cast<uint32_t>(params.heads.num_q_heads);
  return launch_kernel(
      stream,
      {.grid = dim3(max_tokens, num_heads),
       .block = dim3(kPlainThreads),
       .shared_bytes = 2 * static_cast<size_t>(params.heads.head_dim) * sizeof(float)},
      "launch of plain attention", launch.kernel, params, launch.rows);
}

}  // namespace headrace::attention
