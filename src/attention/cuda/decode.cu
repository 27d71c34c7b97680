// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/decode.h"

#include <algorithm>
#include <string>
#include <vector>

#include "attention/attention.h"
#include "attention/cuda/decode_instances.h"
#include "attention/cuda/kv_tensor_map.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/launch.h"

namespace headrace::attention {
namespace {

const std::vector<DecodeInstance>& instances() {
  static const std::vector<DecodeInstance> all = [] {
    std::vector<DecodeInstance> list;
    for (const auto& part :
         {decode_bf16_bf16_d64(), decode_bf16_bf16_d128(), decode_bf16_bf16_d256(),
          decode_fp16_fp16_d64(), decode_fp16_fp16_d128(), decode_fp16_fp16_d256(),
          decode_bf16_fp8_d64(), decode_bf16_fp8_d128(), decode_bf16_fp8_d256(),
          decode_fp16_fp8_d64(), decode_fp16_fp8_d128(), decode_fp16_fp8_d256()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

const DecodeInstance* find_instance(const DecodeConfig& config) {
  const auto& all = instances();
  const auto found = std::find_if(all.begin(), all.end(), [&](const DecodeInstance& instance) {
    return instance.config == config;
  });
  return found == all.end() ? nullptr : &*found;
}

int32_t max_queries(const HeadShape& heads, int32_t max_query_len) {
  return heads.num_q_heads / heads.num_kv_heads * max_query_len;
}

// Vectors of partial results.
int64_t num_partial_vectors(const HeadShape& heads, const metadata::Limits& limits,
                            const metadata::SplitShape& shape, int32_t max_query_len) {
  return metadata::max_partials(limits, shape) * heads.num_kv_heads *
         max_queries(heads, max_query_len);
}

Status check_options(const AttentionParams& params, const DecodeOptions& options) {
  const metadata::SplitShape& shape = options.split.shape;
  if (options.max_query_len < 1 || options.max_query_len > metadata::kMaxVerifyTokens) {
    return invalid_argument("max_query_len is " + std::to_string(options.max_query_len) +
                            "; a verify row has 1 to " +
                            std::to_string(metadata::kMaxVerifyTokens) + " tokens");
  }
  if (shape.unit_tokens % kPieceKeys != 0) {
    return invalid_argument("the split has units of " + std::to_string(shape.unit_tokens) +
                            " tokens; the decode kernels want a multiple of 16");
  }
  if (shape.window != 0 && shape.window != params.window) {
    return invalid_argument("the split is for a window of " + std::to_string(shape.window) +
                            " tokens, the attention for " + std::to_string(params.window));
  }
  if (options.split.unit_start == nullptr || options.workspace == nullptr) {
    return invalid_argument("the decode launch has no split or no workspace");
  }
  return {};
}

}  // namespace

int64_t decode_workspace_bytes(const HeadShape& heads, const metadata::Limits& limits,
                               const metadata::SplitShape& shape, int32_t max_query_len) {
  return num_partial_vectors(heads, limits, shape, max_query_len) * (heads.head_dim + 1) *
         static_cast<int64_t>(sizeof(float));
}

Result<DecodeLaunch> prepare_decode(const AttentionParams& params, const DecodeOptions& options) {
  HEADRACE_RETURN_IF_ERROR(check_options(params, options));
  DecodeLaunch launch;
  HEADRACE_ASSIGN_OR_RETURN(launch.config, choose_decode(params, options.max_query_len));
  const DecodeInstance* instance = find_instance(launch.config);
  if (instance == nullptr) return unsupported(to_string(launch.config) + " is not built");
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      instance->decode, cudaFuncAttributeMaxDynamicSharedMemorySize, instance->shared_bytes));
  if (launch.config.load == KvLoad::kTensorCopy) {
    HEADRACE_ASSIGN_OR_RETURN(launch.maps, kv_tensor_maps(params.cache, params.heads, kPieceKeys));
  }
  const metadata::Limits& limits = params.step.limits;
  const metadata::SplitShape& shape = options.split.shape;
  const int32_t num_kv_heads = params.heads.num_kv_heads;
  auto* workspace = static_cast<float*>(options.workspace);
  const metadata::StepView& step = params.step;
  const KvCache& cache = params.cache;
  launch.params = {.split = options.split,
                   .page_table = step.page_table,
                   .max_pages_per_row = limits.max_pages_per_row,
                   .group = params.heads.num_q_heads / num_kv_heads,
                   .max_queries = max_queries(params.heads, options.max_query_len),
                   .by_page_size = metadata::FastDivisor(limits.page_size),
                   .by_group = metadata::FastDivisor(params.heads.num_q_heads / num_kv_heads),
                   .q = params.q,
                   .q_stride = params.q_stride,
                   .scale = params.scale,
                   .soft_cap = params.soft_cap,
                   .window = params.window,
                   .early_pages = options.programmatic && options.early_pages,
                   .partial_out = workspace,
                   .partial_lse = workspace + num_partial_vectors(params.heads, limits, shape,
                                                                  options.max_query_len) *
                                                  params.heads.head_dim,
                   .out = params.out,
                   .out_stride = params.out_stride,
                   .lse = params.lse,
                   .sinks = params.sinks,
                   .key_scale = cache.key_scale,
                   .value_scale = cache.value_scale,
                   .scale_stride = cache.scale_stride,
                   .num_kv_heads = num_kv_heads,
                   .counts = step.counts,
                   .max_tokens = limits.max_tokens,
                   .num_q_heads = params.heads.num_q_heads,
                   .cache = cache.data,
                   .page_stride = cache.page_stride,
                   .token_stride = cache.token_stride,
                   .head_stride = cache.head_stride,
                   .value_offset = cache.value_offset};
  launch.decode = instance->decode;
  launch.combine = instance->combine;
  launch.decode_grid = dim3(shape.num_workers, num_kv_heads);
  launch.combine_grid =
      dim3(shape.fixed ? limits.max_rows : std::max(1, shape.num_workers - 1), num_kv_heads);
  launch.num_threads = instance->num_threads;
  launch.shared_bytes = instance->shared_bytes;
  launch.programmatic = options.programmatic;
  return launch;
}

Status launch_decode(cudaStream_t stream, const DecodeLaunch& launch) {
  HEADRACE_RETURN_IF_ERROR(launch_kernel(stream,
                                         {.grid = launch.decode_grid,
                                          .block = dim3(launch.num_threads),
                                          .shared_bytes = static_cast<size_t>(launch.shared_bytes),
                                          .programmatic = launch.programmatic},
                                         "launch of decode attention", launch.decode, launch.params,
                                         launch.maps));
  return launch_kernel(stream,
                       {.grid = launch.combine_grid,
                        .block = dim3(kCombineThreads),
                        .programmatic = launch.programmatic},
                       "launch of the decode merge", launch.combine, launch.params);
}

}  // namespace headrace::attention
