// SPDX-License-Identifier: Apache-2.0
// Where an element of the paged cache lies, and how a head vector is read and written there. Knows
// strides; knows nothing of rows or of attention.
#pragma once

#include <cstdint>

#include "attention/attention_params.h"
#include "tensor/convert.h"

namespace headrace::attention {

// Element offset of a K head vector. 64-bit: page · page_stride passes 2^31 on large caches.
inline int64_t key_offset(const KvCache& cache, int64_t page, int64_t offset_in_page,
                          int64_t kv_head) {
  return page * cache.page_stride + offset_in_page * cache.token_stride +
         kv_head * cache.head_stride;
}

// K head vector of `position` for a row whose page table entries are `pages`.
inline int64_t key_offset_of_position(const KvCache& cache, const int32_t* pages, int64_t position,
                                      int64_t kv_head) {
  return key_offset(cache, pages[position / cache.page_size], position % cache.page_size, kv_head);
}

// `count` elements at `offset`, widened to fp32.
inline void load_vector(const KvCache& cache, int64_t offset, int64_t count, float* out) {
  widen(cache.data, cache.dtype, offset, count, out);
}
// The inverse; rounds to nearest even.
inline void store_vector(const KvCache& cache, int64_t offset, int64_t count, const float* values) {
  narrow(values, count, cache.data, cache.dtype, offset);
}

}  // namespace headrace::attention
