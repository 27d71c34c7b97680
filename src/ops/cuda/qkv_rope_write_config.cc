// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/qkv_rope_write_config.h"

#include <fmt/core.h>

#include <algorithm>

#include "attention/kv_cache.h"

namespace headrace::ops {
namespace {

// About what the largest GPU has resident of this kernel's blocks.
constexpr int32_t kMaxBlocks = 1056;
constexpr int32_t kMaxHeadDim = 512;

bool is_io_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

Status check(const QkvRopeWriteParams& params) {
  const attention::HeadShape& heads = params.heads;
  if (heads.num_q_heads < 1 || heads.num_kv_heads < 1 || heads.head_dim < 1 ||
      heads.head_dim > kMaxHeadDim) {
    return invalid_argument(
        fmt::format("{} query heads, {} key heads, head dim {}; head dims are "
                    "1 to {}",
                    heads.num_q_heads, heads.num_kv_heads, heads.head_dim, kMaxHeadDim));
  }
  const int32_t rotary_dim = params.rope.rotary_dim;
  if (rotary_dim < 0 || rotary_dim % 2 != 0 || rotary_dim > heads.head_dim) {
    return invalid_argument(fmt::format("rotary dim {} with head dim {}; it is even and no larger",
                                        rotary_dim, heads.head_dim));
  }
  if (!is_io_type(params.io_dtype)) {
    return invalid_argument(fmt::format("a projection of {}; fp32, bf16 and fp16 are taken",
                                        dtype_name(params.io_dtype)));
  }
  if (!is_io_type(params.cache.dtype) && params.cache.dtype != DType::kFP8E4M3) {
    return invalid_argument(fmt::format("no KV cache of {}", dtype_name(params.cache.dtype)));
  }
  return {};
}

bool takes_vectors(const QkvRopeWriteParams& params) {
  const int32_t head_dim = params.heads.head_dim;
  const attention::KvCache& cache = params.cache;
  return params.io_dtype != DType::kF32 && (head_dim == 64 || head_dim == 128 || head_dim == 256) &&
         (cache.dtype == params.io_dtype || cache.dtype == DType::kFP8E4M3) &&
         params.rope.rotary_dim % 16 == 0 && params.projection_stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(params.projection) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(params.q_out) % 16 == 0 &&
         attention::has_aligned_vectors(cache);
}

}  // namespace

std::string QkvRopeWriteConfig::to_string() const {
  return fmt::format("qkv_rope_write by {}, {} heads a block, grid {} x {}",
                     vectors ? "vectors" : "elements", heads_per_block, num_token_blocks,
                     blocks_per_token);
}

Result<QkvRopeWriteConfig> choose_qkv_rope_write(const QkvRopeWriteParams& params) {
  HEADRACE_RETURN_IF_ERROR(check(params));
  QkvRopeWriteConfig config;
  config.vectors = takes_vectors(params);
  const int32_t lanes_per_head = config.vectors ? params.heads.head_dim / 8 : 32;
  config.heads_per_block = kQkvRopeWriteThreads / lanes_per_head;
  const int32_t num_heads = params.heads.num_q_heads + 2 * params.heads.num_kv_heads;
  config.blocks_per_token = (num_heads + config.heads_per_block - 1) / config.heads_per_block;
  config.num_token_blocks = std::clamp(kMaxBlocks / config.blocks_per_token, 1,
                                       std::max(1, params.step.limits.max_tokens));
  return config;
}

}  // namespace headrace::ops
