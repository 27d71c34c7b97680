// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include "tensor/cuda/cuda_error.h"

namespace headrace {
namespace {

using Encoder = decltype(&cuTensorMapEncodeTiled);

Result<Encoder> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return unsupported(
        "the NVIDIA driver has no cuTensorMapEncodeTiled: install a driver "
        "for CUDA 13");
  }
  return reinterpret_cast<Encoder>(function);
}

CUtensorMapDataType element_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace

Result<CUtensorMap> encode_tensor_map(const void* data, const TensorMapShape& shape) {
  static const Result<Encoder> encoder = find_encoder();
  HEADRACE_RETURN_IF_ERROR(encoder.status());
  constexpr std::array<uint32_t, TensorMapShape::kMaxRank> kEveryElement{1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encoder.value()(
      &map, element_type(shape.dtype), static_cast<uint32_t>(shape.rank), const_cast<void*>(data),
      shape.sizes.data(), shape.strides.data() + 1, shape.box.data(), kEveryElement.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, shape.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return invalid_argument("the copy engine cannot address this tensor (error " +
                            std::to_string(static_cast<int>(result)) +
                            " of cuTensorMapEncodeTiled)");
  }
  return map;
}

}  // namespace headrace
