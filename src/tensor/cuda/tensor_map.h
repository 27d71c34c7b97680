// SPDX-License-Identifier: Apache-2.0
// Descriptions of tensors in device memory for the copy engine. The driver's encoder is found at
// run time, so that nothing links to the driver.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace {

// Innermost dimension first. Where sizes are not multiples of the box, what lies outside reads as
// zeros.
struct TensorMapShape {
  static constexpr int kMaxRank = 5;
  DType dtype = DType::kBF16;
  int rank = 0;
  std::array<uint64_t, kMaxRank> sizes{};    // elements
  std::array<uint64_t, kMaxRank> strides{};  // bytes, multiples of 16; strides[0] is not read
  std::array<uint32_t, kMaxRank> box{};      // elements of one copy; up to 256 each
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
};

// kInvalidArgument when the engine cannot address it (alignment, sizes), kUnsupported without a
// driver that has the encoder. `data` is device memory, 16-byte aligned.
Result<CUtensorMap> encode_tensor_map(const void* data, const TensorMapShape& shape);

}  // namespace headrace
