// SPDX-License-Identifier: Apache-2.0
#include "attention/kv_cache.h"

#include <string>

#include "base/check.h"

namespace headrace::attention {
namespace {

template <typename T>
void load_as(const void* data, int64_t offset, int64_t count, float* out) {
  const T* source = static_cast<const T*>(data) + offset;
  for (int64_t i = 0; i < count; ++i) out[i] = to_float(source[i]);
}

template <typename T>
void store_as(void* data, int64_t offset, int64_t count, const float* values) {
  T* target = static_cast<T*>(data) + offset;
  for (int64_t i = 0; i < count; ++i) target[i] = from_float<T>(values[i]);
}

}  // namespace

void load_vector(const KvCache& cache, int64_t offset, int64_t count, float* out) {
  switch (cache.dtype) {
    case DType::kF32:
      return load_as<float>(cache.data, offset, count, out);
    case DType::kBF16:
      return load_as<BF16>(cache.data, offset, count, out);
    case DType::kF16:
      return load_as<F16>(cache.data, offset, count, out);
    default:
      HEADRACE_CHECK(false, std::string("no KV cache of ") + dtype_name(cache.dtype));
  }
}

void store_vector(const KvCache& cache, int64_t offset, int64_t count, const float* values) {
  switch (cache.dtype) {
    case DType::kF32:
      return store_as<float>(cache.data, offset, count, values);
    case DType::kBF16:
      return store_as<BF16>(cache.data, offset, count, values);
    case DType::kF16:
      return store_as<F16>(cache.data, offset, count, values);
    default:
      HEADRACE_CHECK(false, std::string("no KV cache of ") + dtype_name(cache.dtype));
  }
}

}  // namespace headrace::attention
