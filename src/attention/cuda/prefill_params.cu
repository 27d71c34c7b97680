// SPDX-License-Identifier: Apache-2.0
// Arguments of a launch: tensor maps of Q, K and V, and what of the caller's parameters the kernel
// needs.
#include "attention/cuda/prefill_params.cuh"
#include "tensor/cuda/tensor_map.h"

namespace headrace::attention {
namespace {

constexpr float kLog2E = 1.44269504f;
// A window this wide is none; smaller ones leave room for sums in 32 bits.
constexpr int32_t kWidestWindow = 1 << 30;

// [Hq, D / 64, T, 64], boxes of the queries of one warpgroup and head.
TensorMapShape query_shape(const AttentionParams& params) {
  const auto slices = static_cast<uint32_t>(params.heads.head_dim / 64);
  const auto token_bytes = static_cast<uint64_t>(params.q_stride) * 2;
  TensorMapShape shape;
  shape.dtype = params.io_dtype;
  shape.rank = 5;
  shape.sizes = {64, static_cast<uint64_t>(params.step.limits.max_tokens), slices,
                 static_cast<uint64_t>(params.heads.num_q_heads), 1};
  shape.strides = {0, token_bytes, 128, uint64_t{slices} * 128, token_bytes};
  shape.box = {64, 64, slices, 1, 1};
  return shape;
}

// [pages, page_size / 8, slices, 8, 64].
TensorMapShape cache_shape(const AttentionParams& params, const PrefillConfig& config) {
  const KvCache& cache = params.cache;
  const auto slices = static_cast<uint32_t>(params.heads.head_dim / 64);
  const auto token_bytes = static_cast<uint64_t>(cache.token_stride) * 2;
  const auto all_slices =
      static_cast<uint64_t>(params.heads.num_kv_heads - 1) * (cache.head_stride / 64) + slices;
  TensorMapShape shape;
  shape.dtype = cache.dtype;
  shape.rank = 5;
  shape.sizes = {64, 8, all_slices, static_cast<uint64_t>(cache.page_size) / 8,
                 static_cast<uint64_t>(cache.num_pages)};
  shape.strides = {0, token_bytes, 128, token_bytes * 8,
                   static_cast<uint64_t>(cache.page_stride) * 2};
  shape.box = {64, 8, slices, static_cast<uint32_t>(config.box_tokens) / 8, 1};
  return shape;
}

}  // namespace

Result<PrefillKernelParams> make_prefill_params(const AttentionParams& params,
                                                const PrefillConfig& config, WorkQueue* queue) {
  const KvCache& cache = params.cache;
  PrefillKernelParams made{};
  const TensorMapShape pages = cache_shape(params, config);
  HEADRACE_ASSIGN_OR_RETURN(made.query_map, encode_tensor_map(params.q, query_shape(params)));
  HEADRACE_ASSIGN_OR_RETURN(made.key_map, encode_tensor_map(cache.data, pages));
  const void* values = static_cast<const uint16_t*>(cache.data) + cache.value_offset;
  HEADRACE_ASSIGN_OR_RETURN(made.value_map, encode_tensor_map(values, pages));
  made.num_pages = cache.num_pages;
  made.page_size = cache.page_size;
  made.box_tokens = config.box_tokens;
  made.slices_per_head = static_cast<int32_t>(cache.head_stride / 64);

  made.out = params.out;
  made.out_stride = params.out_stride;
  made.lse = params.lse;
  made.sinks = params.sinks;
  made.num_q_heads = params.heads.num_q_heads;
  made.group_size = params.heads.num_q_heads / params.heads.num_kv_heads;
  made.window = params.window < kWidestWindow ? params.window : 0;
  if (config.soft_cap) {
    made.cap_scale = params.scale / params.soft_cap * 2.0f * kLog2E;
    made.log2_scale = params.soft_cap * kLog2E;
  } else {
    made.log2_scale = params.scale * kLog2E;
  }

  const metadata::StepView& step = params.step;
  made.counts = step.counts;
  made.prefill_rows = step.prefill_rows;
  made.query_len = step.query_len;
  made.context_len = step.context_len;
  made.query_start = step.query_start_i32;
  made.page_table = step.page_table;
  made.max_pages_per_row = step.limits.max_pages_per_row;
  made.queue = queue;
  return made;
}

}  // namespace headrace::attention
