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

// Of the kernel for a head dim. Each warpgroup has 64 queries; registers bound it, since its
// scores, weights and output lie there, and shared memory, since Q and two tiles each of K and V
// lie in 227 KB. With small heads the exponentials take as long as the products: a third warpgroup
// fills the gaps, but its registers have no room for a soft cap's temporaries.
struct PrefillTile {
  int32_t warpgroups = 0;  // that compute
  int32_t keys = 0;
  constexpr int32_t queries() const { return 64 * warpgroups; }
};
// No keys: there is no kernel.
constexpr PrefillTile prefill_tile(int32_t head_dim, bool soft_cap) {
  switch (head_dim) {
    case 64:
      return {.warpgroups = soft_cap ? 2 : 3, .keys = 128};
    case 128:
      return {.warpgroups = 2, .keys = 176};
    case 256:
      return {.warpgroups = 2, .keys = 80};
    default:
      return {};
  }
}

// Names one instantiation of the kernel (prefill_instances.h), and how it is fed.
struct PrefillConfig {
  DType dtype = DType::kBF16;  // of q, out, K and V
  int32_t head_dim = 0;
  bool soft_cap = false;
  PrefillTile tile;
  int32_t box_tokens = 0;  // of one copy: a run of tokens in one page, and in one tile

  // "prefill bf16 d128, 128 queries x 128 keys, boxes of 16 tokens, soft cap"
  std::string to_string() const;
};

// kUnsupported, with the reason, for what the tensor-core kernel cannot read.
Result<PrefillConfig> choose_prefill_kernel(const AttentionParams& params);

}  // namespace headrace::attention
