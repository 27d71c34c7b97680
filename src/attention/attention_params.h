// SPDX-License-Identifier: Apache-2.0
// Arguments of paged attention and of the write into the paged cache. Strides count elements.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"
#include "metadata/step.h"

namespace headrace::attention {

// K and V of one layer. NHD is [pages, 2, page_size, Hkv, D], HND is [pages, 2, Hkv, page_size, D];
// both, and any outer strides, are told by the strides. D is contiguous.
struct KvCache {
  void* data = nullptr;
  DType dtype = DType::kF32;  // fp32, bf16, fp16; fp8_e4m3 on CUDA
  int32_t num_pages = 0;      // null page included
  int32_t page_size = 16;     // tokens
  int64_t page_stride = 0;    // from page to page
  int64_t value_offset = 0;   // from a K element to the V element at the same place
  int64_t token_stride = 0;   // inside a page
  int64_t head_stride = 0;
  // What an fp8 element is multiplied with. On the device; null = 1.
  const float* key_scale = nullptr;    // [1] or [Hkv]
  const float* value_scale = nullptr;  // [1] or [Hkv]
  int32_t scale_stride = 0;            // 0: one scale for all heads, 1: one for each
};

struct HeadShape {
  int32_t num_q_heads = 0;   // Hq, local to this rank
  int32_t num_kv_heads = 0;  // Hkv, local to this rank; Hq / Hkv is 1…16, odd ones too
  int32_t head_dim = 0;      // D, any multiple of 8 up to 512
};

// Softmax attention of the new tokens over pages, causal, for rows of every kind:
//   o = softmax(scale · q Kᵀ [soft-capped] [+ sink]) V.
// Rows of length zero and padding tokens give o = 0 and lse = −inf.
struct AttentionParams {
  HeadShape heads;
  DType io_dtype = DType::kF32;  // of q and out: fp32; on CUDA bf16 and fp16 too
  const void* q = nullptr;       // [T, Hq, D]
  int64_t q_stride = 0;          // from token to token
  void* out = nullptr;           // [T, Hq, D]
  int64_t out_stride = 0;
  float* lse = nullptr;  // [T, Hq] natural log of the sum of exp, sink included; may be null
  KvCache cache;
  float scale = 1.0f;
  int32_t window = 0;            // keys a query sees, itself included; 0 = all
  float soft_cap = 0.0f;         // s ← cap · tanh(s / cap); 0 = none
  const float* sinks = nullptr;  // [Hq] logit of a virtual key with value 0; may be null
  // Reserved: a prefix shared by all rows and attended to once, and a packed mask of a tree of
  // drafts. No path has them yet; all refuse params that set one.
  const void* shared_prefix = nullptr;
  const uint32_t* tree_mask = nullptr;
  metadata::StepView step;
};

inline bool sets_reserved(const AttentionParams& params) {
  return params.shared_prefix != nullptr || params.tree_mask != nullptr;
}
inline constexpr const char* kReservedIsSet =
    "attention with a shared prefix or a tree mask is not there yet: leave both null";

// Writes k and v of the new tokens into their pages (tokens with slot_mapping < 0 are skipped).
struct KvWriteParams {
  HeadShape heads;
  DType io_dtype = DType::kF32;  // of k and v: fp32; on CUDA bf16 and fp16 too
  const void* k = nullptr;       // [T, Hkv, D]
  int64_t k_stride = 0;          // from token to token
  const void* v = nullptr;       // [T, Hkv, D]
  int64_t v_stride = 0;
  KvCache cache;
  metadata::StepView step;
};

}  // namespace headrace::attention
