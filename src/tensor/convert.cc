// SPDX-License-Identifier: Apache-2.0
#include "tensor/convert.h"

#include <cstring>
#include <string>

#include "base/check.h"
#include "base/float16.h"

namespace headrace {
namespace {

template <typename T>
void widen_from(const void* data, int64_t offset, int64_t count, float* out) {
  const char* source = static_cast<const char*>(data) + offset * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, source + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = to_float(element);
  }
}

template <typename T>
void narrow_to(const float* values, int64_t count, void* data, int64_t offset, int64_t stride) {
  char* target = static_cast<char*>(data) + offset * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const T element = from_float<T>(values[i]);
    std::memcpy(target + i * stride * static_cast<int64_t>(sizeof(T)), &element, sizeof(T));
  }
}

}  // namespace

bool is_float_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

void widen(const void* data, DType dtype, int64_t offset, int64_t count, float* out) {
  HEADRACE_CHECK(is_float_dtype(dtype), dtype_name(dtype));
  if (dtype == DType::kBF16) return widen_from<BF16>(data, offset, count, out);
  if (dtype == DType::kF16) return widen_from<F16>(data, offset, count, out);
  widen_from<float>(data, offset, count, out);
}

void narrow(const float* values, int64_t count, void* data, DType dtype, int64_t offset,
            int64_t stride) {
  HEADRACE_CHECK(is_float_dtype(dtype), dtype_name(dtype));
  if (dtype == DType::kBF16) return narrow_to<BF16>(values, count, data, offset, stride);
  if (dtype == DType::kF16) return narrow_to<F16>(values, count, data, offset, stride);
  narrow_to<float>(values, count, data, offset, stride);
}

}  // namespace headrace
