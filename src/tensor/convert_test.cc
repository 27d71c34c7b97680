// SPDX-License-Identifier: Apache-2.0
#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/check.h"

namespace headrace {
namespace {

TEST(Convert, ThereAndBackAtAnyAlignment) {
  const std::vector<float> values{1.0f, -2.5f, 0.0f, 96.0f, -0.125f};  // exact in all three
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (size_t shift : {0u, 1u, 3u}) {
      std::vector<char> memory(64, 0x7f);
      narrow(values.data(), 5, memory.data() + shift, dtype, 2);
      std::vector<float> back(5);
      widen(memory.data() + shift, dtype, 2, 5, back.data());
      EXPECT_EQ(back, values);
      const size_t begin = shift + 2 * dtype_size_bytes(dtype);
      const size_t end = shift + 7 * dtype_size_bytes(dtype);
      for (size_t i = 0; i < memory.size(); ++i) {
        if (i < begin || i >= end) {
          EXPECT_EQ(memory[i], 0x7f) << i;
        }
      }
    }
  }
}

TEST(Convert, NarrowWithAStrideAndRounding) {
  const std::vector<float> values{1.0f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-8f};
  std::vector<float> memory(9, 5.0f);
  narrow(values.data(), 3, memory.data(), DType::kF32, 1, 3);
  EXPECT_EQ(memory, (std::vector<float>{5, 1, 5, 5, values[1], 5, 5, values[2], 5}));
  std::vector<uint16_t> halves(3);
  narrow(values.data(), 3, halves.data(), DType::kBF16, 0);
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f81}));
}

TEST(Convert, OtherTypesAreRefused) {
  float value = 0.0f;
  EXPECT_FALSE(is_float_dtype(DType::kI32));
  EXPECT_THROW(widen(&value, DType::kI32, 0, 1, &value), InternalError);
  EXPECT_THROW(narrow(&value, 1, &value, DType::kFP8E4M3, 0), InternalError);
}

}  // namespace
}  // namespace headrace
