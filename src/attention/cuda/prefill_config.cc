// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill_config.h"

#include <numeric>

namespace headrace::attention {
namespace {

bool is_multiple(int64_t value, int64_t of) { return value % of == 0; }

}  // namespace

std::string PrefillConfig::to_string() const {
  return std::string("prefill ") + dtype_name(dtype) + " d" + std::to_string(head_dim) + ", " +
         std::to_string(tile.queries()) + " queries x " + std::to_string(tile.keys) +
         " keys, boxes of " + std::to_string(box_tokens) + " tokens" +
         (soft_cap ? ", soft cap" : "");
}

Result<PrefillConfig> choose_prefill_kernel(const AttentionParams& params) {
  if (sets_reserved(params)) return unsupported(kReservedIsSet);
  const KvCache& cache = params.cache;
  PrefillConfig config;
  config.dtype = params.io_dtype;
  config.head_dim = params.heads.head_dim;
  config.soft_cap = params.soft_cap > 0.0f;
  config.tile = prefill_tile(config.head_dim, config.soft_cap);
  if (config.tile.keys == 0) {
    return unsupported("head_dim " + std::to_string(config.head_dim) + " is not 64, 128 or 256");
  }
  if (config.dtype != DType::kBF16 && config.dtype != DType::kF16) {
    return unsupported(std::string("q of ") + dtype_name(config.dtype));
  }
  if (cache.dtype != config.dtype) {
    return unsupported(std::string("a cache of ") + dtype_name(cache.dtype) + " under q of " +
                       dtype_name(config.dtype));
  }
  if (!(params.scale > 0.0f)) return unsupported("a scale that is not positive");
  if (!is_multiple(cache.page_size, 8)) {
    return unsupported("page_size " + std::to_string(cache.page_size) + " is no multiple of 8");
  }
  // The copy engine counts in 16 bytes; heads are found in slices of 64 elements.
  if (!is_multiple(params.q_stride, 8) || !is_multiple(cache.token_stride, 8) ||
      !is_multiple(cache.page_stride, 8) || !is_multiple(cache.value_offset, 8) ||
      !is_multiple(cache.head_stride, 64)) {
    return unsupported("a stride that is no multiple of 16 bytes, or of 128 from head to head");
  }
  if (!is_multiple(reinterpret_cast<intptr_t>(cache.data), 16) ||
      !is_multiple(reinterpret_cast<intptr_t>(params.q), 16) ||
      !is_multiple(reinterpret_cast<intptr_t>(params.out), 4) ||
      !is_multiple(params.out_stride, 2)) {
    return unsupported("q, cache or out not aligned");
  }
  config.box_tokens = std::gcd(cache.page_size, config.tile.keys);
  return config;
}

}  // namespace headrace::attention
