// SPDX-License-Identifier: Apache-2.0
// Which general kernel takes a problem, and why none does. Pure functions of shapes, types, strides
// and alignment: they can be printed and tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

enum class GeneralLoad {
  kAsync,     // asynchronous copies of 16 bytes
  kElements,  // element by element: strides or addresses that are no multiples of 16 bytes
};

// Names one instantiation of the kernel (general_instances.h).
struct GeneralConfig {
  DType io_dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  int32_t head_dim = 0;
  GeneralLoad load = GeneralLoad::kAsync;

  bool operator==(const GeneralConfig&) const = default;
};

// "general bf16, KV fp8_e4m3, D 128, async copies"
std::string to_string(const GeneralConfig& config);

// kUnsupported, with the reason, for element types and head dims that are not built.
Result<GeneralConfig> choose_general(const AttentionParams& params);

}  // namespace headrace::attention
