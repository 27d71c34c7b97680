// SPDX-License-Identifier: Apache-2.0
// Submits attention and the cache write to a CPU stream and picks the kernel.
#include "attention/attention.h"

#include <string>

#include "attention/cpu/attention_tiled.h"
#include "attention/kv_cache.h"
#include "attention/reference.h"
#include "base/check.h"
#include "base/cpu_features.h"

namespace headrace::attention {

void check_heads(const HeadShape& heads) {
  HEADRACE_CHECK(heads.num_kv_heads > 0 && heads.num_q_heads > 0 &&
                     heads.num_q_heads % heads.num_kv_heads == 0 &&
                     heads.num_q_heads / heads.num_kv_heads <= 16,
                 std::to_string(heads.num_q_heads) + " query heads over " +
                     std::to_string(heads.num_kv_heads) + " key heads; groups are 1 to 16");
  HEADRACE_CHECK(heads.head_dim >= 8 && heads.head_dim <= 512 && heads.head_dim % 8 == 0,
                 "head dim " + std::to_string(heads.head_dim) + "; multiples of 8 up to 512");
}

void check_cache(const KvCache& cache, const HeadShape& heads) {
  HEADRACE_CHECK(cache.data != nullptr && cache.page_size > 0);
  HEADRACE_CHECK(is_float_dtype(cache.dtype),
                 std::string("no KV cache of ") + dtype_name(cache.dtype));
  HEADRACE_CHECK(cache.token_stride >= heads.head_dim && cache.head_stride >= heads.head_dim &&
                 cache.value_offset >= heads.head_dim);
}

void attention(Stream& stream, const AttentionParams& params) {
  check_heads(params.heads);
  check_cache(params.cache, params.heads);
  HEADRACE_CHECK(params.io_dtype == DType::kF32);
  HEADRACE_CHECK(!sets_reserved(params), kReservedIsSet);
  const auto kernel = cpu_isa() == Isa::kAvx2 ? attention_tiled : attention_reference;
  static_cast<CpuStream&>(stream).run([params, kernel](ThreadPool& pool) { kernel(params, pool); });
}

void kv_write(Stream& stream, const KvWriteParams& params) {
  check_heads(params.heads);
  check_cache(params.cache, params.heads);
  HEADRACE_CHECK(params.io_dtype == DType::kF32);
  static_cast<CpuStream&>(stream).run([params](ThreadPool& pool) {
    const int64_t head_dim = params.heads.head_dim;
    pool.parallel_for(params.step.counts->num_tokens, 8, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const int64_t slot = params.step.slot_mapping[token];
        if (slot < 0) continue;
        for (int64_t head = 0; head < params.heads.num_kv_heads; ++head) {
          const int64_t offset = key_offset_of_slot(params.cache, slot, head);
          store_vector(
              params.cache, offset, head_dim,
              static_cast<const float*>(params.k) + token * params.k_stride + head * head_dim);
          store_vector(
              params.cache, offset + params.cache.value_offset, head_dim,
              static_cast<const float*>(params.v) + token * params.v_stride + head * head_dim);
        }
      }
    });
  });
}

}  // namespace headrace::attention
