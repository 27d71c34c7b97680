// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/decode_config.h"

#include <fmt/core.h>

#include <algorithm>

#include "attention/kv_cache.h"

namespace headrace::attention {
namespace {

bool is_16_bit_float(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

bool is_aligned(const void* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * 2 % 16 == 0;
}

}  // namespace

std::string to_string(const DecodeConfig& config) {
  return fmt::format("decode {}, KV {}, D {}, {} queries a pass, {}", dtype_name(config.io_dtype),
                     dtype_name(config.kv_dtype), config.head_dim, 8 * config.query_tiles,
                     config.load == KvLoad::kTensorCopy ? "tensor copies" : "gather");
}

Result<DecodeConfig> choose_decode(const AttentionParams& params, int32_t max_query_len) {
  if (sets_reserved(params)) return unsupported(kReservedIsSet);
  const KvCache& cache = params.cache;
  const int32_t head_dim = params.heads.head_dim;
  if (!is_16_bit_float(params.io_dtype)) {
    return unsupported(fmt::format("the decode kernels take bf16 and fp16 queries, not {}",
                                   dtype_name(params.io_dtype)));
  }
  if (cache.dtype != params.io_dtype && cache.dtype != DType::kFP8E4M3) {
    return unsupported(fmt::format("the decode kernels take a KV cache of {} or fp8_e4m3, not {}",
                                   dtype_name(params.io_dtype), dtype_name(cache.dtype)));
  }
  if (head_dim != 64 && head_dim != 128 && head_dim != 256) {
    return unsupported(
        fmt::format("the decode kernels have head dims 64, 128 and 256, not {}", head_dim));
  }
  if (!has_aligned_vectors(cache) || !is_aligned(params.q, params.q_stride) ||
      !is_aligned(params.out, params.out_stride)) {
    return unsupported("the decode kernels want 16-byte aligned vectors of q, out, K and V");
  }
  const int32_t queries = max_query_len * (params.heads.num_q_heads / params.heads.num_kv_heads);
  return DecodeConfig{.io_dtype = params.io_dtype,
                      .kv_dtype = cache.dtype,
                      .head_dim = head_dim,
                      .query_tiles = queries <= 8    ? 1
                                     : queries <= 16 ? 2
                                                     : 4,
                      .load = cache.page_size % 16 == 0 ? KvLoad::kTensorCopy : KvLoad::kGather};
}

int32_t decode_workers(int32_t num_multiprocessors, int32_t num_kv_heads) {
  return std::max(1, 2 * num_multiprocessors / num_kv_heads);
}

}  // namespace headrace::attention
