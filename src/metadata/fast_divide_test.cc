// SPDX-License-Identifier: Apache-2.0
#include "metadata/fast_divide.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace headrace::metadata {
namespace {

TEST(FastDivisor, EqualsDivision) {
  std::mt19937 random(1);
  for (int32_t divisor = 1; divisor <= 2000; ++divisor) {
    const FastDivisor fast(divisor);
    for (int32_t n = 0; n < 300; ++n) {
      ASSERT_EQ(fast.quotient(n), n / divisor);
      // Next to a multiple, where a rounded reciprocal fails first, up to the largest number.
      const auto any = static_cast<int32_t>(random() >> 1);
      for (const int32_t near : {any, any / divisor * divisor, any / divisor * divisor - 1}) {
        if (near < 0) continue;
        ASSERT_EQ(fast.quotient(near), near / divisor) << near << " / " << divisor;
        ASSERT_EQ(fast.remainder(near), near % divisor) << near << " % " << divisor;
      }
    }
    ASSERT_EQ(fast.quotient(INT32_MAX), INT32_MAX / divisor);
  }
  for (const int32_t divisor : {65535, 65536, 65537, 1 << 30, INT32_MAX - 1, INT32_MAX}) {
    const FastDivisor fast(divisor);
    for (const int32_t n : {0, 1, divisor - 1, divisor, INT32_MAX - 1, INT32_MAX}) {
      EXPECT_EQ(fast.quotient(n), n / divisor) << n << " / " << divisor;
    }
  }
}

}  // namespace
}  // namespace headrace::metadata
