// SPDX-License-Identifier: Apache-2.0
// Where an element of the paged cache lies, and how a head vector is read and written there. Knows
// strides; knows nothing of rows or of attention.
#pragma once

#include <cstdint>

#include "attention/attention_params.h"
#include "metadata/host_device.h"
#include "tensor/convert.h"

namespace headrace::attention {

// Element offset of a K head vector. 64-bit: page · page_stride passes 2^31 on large caches.
HEADRACE_HOST_DEVICE inline int64_t key_offset(const KvCache& cache, int64_t page,
                                               int64_t offset_in_page, int64_t kv_head) {
  return page * cache.page_stride + offset_in_page * cache.token_stride +
         kv_head * cache.head_stride;
}

// The same for an entry of StepView::slot_mapping.
HEADRACE_HOST_DEVICE inline int64_t key_offset_of_slot(const KvCache& cache, int64_t slot,
                                                       int64_t kv_head) {
  // A division in 32 bits where it can be: the other one takes a GPU five times as long.
  const int64_t page = slot <= UINT32_MAX
                           ? static_cast<uint32_t>(slot) / static_cast<uint32_t>(cache.page_size)
                           : slot / cache.page_size;
  return key_offset(cache, page, slot - page * cache.page_size, kv_head);
}

// K head vector of `position` for a row whose page table entries are `pages`.
inline int64_t key_offset_of_position(const KvCache& cache, const int32_t* pages, int64_t position,
                                      int64_t kv_head) {
  return key_offset(cache, pages[position / cache.page_size], position % cache.page_size, kv_head);
}

// Whether every head vector begins at a multiple of 16 bytes, as vector loads want it.
inline bool has_aligned_vectors(const KvCache& cache) {
  const auto size = static_cast<int64_t>(dtype_size_bytes(cache.dtype));
  const auto aligned = [&](int64_t stride) { return stride * size % 16 == 0; };
  return reinterpret_cast<uintptr_t>(cache.data) % 16 == 0 && aligned(cache.page_stride) &&
         aligned(cache.token_stride) && aligned(cache.head_stride) && aligned(cache.value_offset);
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
