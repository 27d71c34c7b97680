// SPDX-License-Identifier: Apache-2.0
#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headrace {
namespace {

// Every 16-bit pattern survives the way to fp32 and back; NaN stays NaN.
template <typename T>
void round_trip() {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const T value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(from_float<T>(wide))));
    } else {
      ASSERT_EQ(from_float<T>(wide).bits, bits);
    }
  }
}

TEST(Float16, RoundTripBF16) { round_trip<BF16>(); }
TEST(Float16, RoundTripF16) { round_trip<F16>(); }

TEST(Float16, KnownValues) {
  EXPECT_EQ(from_float<F16>(1.0f).bits, 0x3c00);
  EXPECT_EQ(from_float<F16>(65504.0f).bits, 0x7bff);
  EXPECT_EQ(from_float<F16>(65519.0f).bits, 0x7bff);
  EXPECT_EQ(from_float<F16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(from_float<F16>(0x1p-24f).bits, 1);
  EXPECT_EQ(from_float<F16>(0x1p-25f).bits, 0);    // tie to even
  EXPECT_EQ(from_float<F16>(0x1.8p-24f).bits, 2);  // tie to even
  EXPECT_EQ(from_float<BF16>(1.0f).bits, 0x3f80);
  EXPECT_EQ(from_float<BF16>(1.00390625f).bits, 0x3f80);  // tie to even
  EXPECT_EQ(from_float<BF16>(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace headrace
