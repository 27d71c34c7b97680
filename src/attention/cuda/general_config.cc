// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general_config.h"

namespace headrace::attention {

namespace {

constexpr int32_t kWideSharedBytes = 200 * 1024;

}  // namespace

std::string to_string(const GeneralConfig& config) {
  const GeneralTile tile = general_tile(config.head_dim, config.wide);
  return std::string("general ") + dtype_name(config.io_dtype) + ", KV " +
         dtype_name(config.kv_dtype) + ", D " + std::to_string(config.head_dim) + ", " +
         std::to_string(tile.queries()) + " queries x " + std::to_string(tile.keys) + " keys, " +
         (config.async ? "async copies" : "element loads");
}

Result<GeneralConfig> choose_general(const AttentionParams& params, int32_t max_shared_bytes) {
  if (sets_reserved(params)) return unsupported(kReservedIsSet);
  const KvCache& cache = params.cache;
  const int32_t head_dim = params.heads.head_dim;
  if (params.io_dtype != DType::kBF16 && params.io_dtype != DType::kF16) {
    return unsupported(std::string("the general kernels take bf16 and fp16 queries, not ") +
                       dtype_name(params.io_dtype));
  }
  if (cache.dtype != params.io_dtype && cache.dtype != DType::kFP8E4M3) {
    return unsupported(std::string("the general kernels take a KV cache of ") +
                       dtype_name(params.io_dtype) + " or fp8_e4m3, not " +
                       dtype_name(cache.dtype));
  }
  if (head_dim != 64 && head_dim != 128 && head_dim != 256) {
    return unsupported("the general kernels have head dims 64, 128 and 256, not " +
                       std::to_string(head_dim));
  }
  const auto size = static_cast<int64_t>(dtype_size_bytes(cache.dtype));
  const auto is_aligned = [&](int64_t stride) { return stride * size % 16 == 0; };
  const bool async = reinterpret_cast<uintptr_t>(cache.data) % 16 == 0 &&
                     is_aligned(cache.page_stride) && is_aligned(cache.token_stride) &&
                     is_aligned(cache.head_stride) && is_aligned(cache.value_offset);
  return GeneralConfig{.io_dtype = params.io_dtype,
                       .kv_dtype = cache.dtype,
                       .head_dim = head_dim,
                       .wide = head_dim == 256 && max_shared_bytes >= kWideSharedBytes,
                       .async = async};
}

}  // namespace headrace::attention
