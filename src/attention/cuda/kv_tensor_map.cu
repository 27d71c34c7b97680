// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/kv_tensor_map.h"

#include <algorithm>

#include "tensor/cuda/tensor_map.h"

namespace headrace::attention {

Result<KvTensorMaps> kv_tensor_maps(const KvCache& cache, const HeadShape& heads,
                                    int32_t box_tokens) {
  const auto size = static_cast<uint64_t>(dtype_size_bytes(cache.dtype));
  const auto head_bytes = static_cast<uint64_t>(heads.head_dim) * size;
  const uint64_t line_bytes = std::min<uint64_t>(128, head_bytes);
  const auto bytes = [&](int64_t stride) { return static_cast<uint64_t>(stride) * size; };
  const TensorMapShape shape{
      .dtype = cache.dtype,
      .rank = 5,
      .sizes = {line_bytes / size, static_cast<uint64_t>(cache.page_size), head_bytes / line_bytes,
                static_cast<uint64_t>(heads.num_kv_heads), static_cast<uint64_t>(cache.num_pages)},
      .strides = {0, bytes(cache.token_stride), line_bytes, bytes(cache.head_stride),
                  bytes(cache.page_stride)},
      .box = {static_cast<uint32_t>(line_bytes / size), static_cast<uint32_t>(box_tokens),
              static_cast<uint32_t>(head_bytes / line_bytes), 1, 1},
      .swizzle = line_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B};
  KvTensorMaps maps;
  HEADRACE_ASSIGN_OR_RETURN(maps.keys, encode_tensor_map(cache.data, shape));
  const auto* values = static_cast<const char*>(cache.data) + cache.value_offset * size;
  HEADRACE_ASSIGN_OR_RETURN(maps.values, encode_tensor_map(values, shape));
  return maps;
}

}  // namespace headrace::attention
