// SPDX-License-Identifier: Apache-2.0
// Element types of weights, caches and activations.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace headrace {

enum class DType { kF32, kBF16, kF16, kI32, kI64, kFP8E4M3 };

size_t dtype_size_bytes(DType dtype);
// "fp32", "bf16", "fp16", "int32", "int64", "fp8_e4m3".
const char* dtype_name(DType dtype);
// The inverse; also takes the spellings float32, bfloat16, float16, half, float and torch.float32
// ….
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace headrace
