// SPDX-License-Identifier: Apache-2.0
// What the decode and combine kernels get from the host: addresses and shapes, no lengths.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "metadata/fast_divide.h"
#include "metadata/split.h"
#include "metadata/step.h"

namespace headrace::attention {

// R, T, P as in StepView; Q = max_queries: query tokens · group of the longest row that the launch
// is for. A query is j = token of the row · group + head of the group. The order is that of first
// use: a kernel's parameters are fetched line by line, each at its first use, which a short launch
// feels.
struct DecodeParams {
  metadata::SplitView split;
  const int32_t* page_table = nullptr;  // [R, P]
  int32_t max_pages_per_row = 0;        // P
  int32_t group = 1;                    // Hq / Hkv
  int32_t max_queries = 1;              // Q
  metadata::FastDivisor by_page_size;   // tokens
  metadata::FastDivisor by_group;
  const void* q = nullptr;  // [T, Hq, D]
  int64_t q_stride = 0;     // from token to token
  float scale = 1.0f;
  float soft_cap = 0.0f;  // 0 = none
  int32_t window = 0;     // keys a query sees, itself included; 0 = all
  // Keys of past tokens, and the metadata, may be read before the kernel's dependencies are met:
  // what wrote them ended before the kernel before this one began.
  bool early_pages = false;

  float* partial_out = nullptr;  // [max_partials, Hkv, Q, D] each divided by its own sum
  float* partial_lse = nullptr;  // [max_partials, Hkv, Q] base-2 log of its sum; −inf: no keys
  void* out = nullptr;           // [T, Hq, D]
  int64_t out_stride = 0;
  float* lse = nullptr;                // [T, Hq], natural log; may be null
  const float* sinks = nullptr;        // [Hq] may be null
  const float* key_scale = nullptr;    // [1] or [Hkv]; may be null
  const float* value_scale = nullptr;  // [1] or [Hkv]; may be null
  int32_t scale_stride = 0;
  int32_t num_kv_heads = 0;                  // Hkv
  const metadata::Counts* counts = nullptr;  // [1]
  int32_t max_tokens = 0;                    // T
  int32_t num_q_heads = 0;                   // Hq

  // What the gather needs besides; strides count elements.
  const void* cache = nullptr;
  int64_t page_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  int64_t value_offset = 0;
};

// The two halves of a cache layer as the copy engine sees them, innermost dimension first:
// [bytes of a head up to 128, page_size, rest of the head, Hkv, pages].
struct KvTensorMaps {
  CUtensorMap keys;
  CUtensorMap values;
};

}  // namespace headrace::attention
