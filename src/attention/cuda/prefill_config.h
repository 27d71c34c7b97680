// SPDX-License-Identifier: Apache-2.0
// Which prefill kernel runs for given parameters, decided on the host from shapes, types, strides
// and alignment alone, never from the rows of a step. Knows no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "attention/attention_params.h"
#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace::attention {

inline constexpr int32_t kPrefillBlockQueries = 128;  // of one piece of work

// Registers and shared memory bound the tile: scores, weights and output of 64 queries lie in one
// warpgroup's registers, Q and two tiles each of K and V in 227 KB. 0: no kernel.
constexpr int32_t prefill_keys_per_tile(int32_t head_dim) {
  return head_dim == 64 ? 128 : head_dim == 128 ? 176 : head_dim == 256 ? 80 : 0;
}

// Names one instantiation of the kernel (prefill_instances.h), and how it is fed.
struct PrefillConfig {
  DType dtype = DType::kBF16;  // of q, out, K and V
  int32_t head_dim = 0;
  bool soft_cap = false;
  int32_t keys_per_tile = 0;
  int32_t box_tokens = 0;  // of one copy: a run of tokens in one page, and in one tile

  // "prefill bf16 d128, 128 queries x 128 keys, boxes of 16 tokens, soft cap"
  std::string to_string() const;
};

// kUnsupported, with the reason, for what the tensor-core kernel cannot read.
Result<PrefillConfig> choose_prefill_kernel(const AttentionParams& params);

}  // namespace headrace::attention
