// SPDX-License-Identifier: Apache-2.0
// The AVX2 functions against fp64 over their whole range.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/cpu_features.h"
#include "tests/support/scale.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include "base/vector_math_avx2.h"

namespace headrace {
namespace {

using Vector = std::array<float, 8>;

#define HEADRACE_APPLY(name)                                            \
  void apply_##name(const Vector& x, Vector& y) {                       \
    _mm256_storeu_ps(y.data(), name##_avx2(_mm256_loadu_ps(x.data()))); \
  }
HEADRACE_APPLY(exp)
HEADRACE_APPLY(sigmoid)
HEADRACE_APPLY(silu)
HEADRACE_APPLY(tanh)
#undef HEADRACE_APPLY

void store_first(long count, Vector& y) {
  _mm256_maskstore_ps(y.data(), first_lanes_avx2(count), _mm256_set1_ps(1.0f));
}

}  // namespace
}  // namespace headrace
#pragma GCC pop_options

namespace headrace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool has_avx2() {
  for (const std::string& name : cpu_isa_list()) {
    if (name == "avx2") return true;
  }
  return false;
}

class VectorMath : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  }

  // The largest error over evenly spaced bit patterns of |x| < `bound`, both signs: in units of
  // the result, or of `floor` where the result is smaller.
  template <typename Apply, typename Wanted>
  double worst_error(Apply apply, Wanted wanted, float bound, double floor) {
    const uint32_t last = std::bit_cast<uint32_t>(bound);
    const uint32_t stride = last / static_cast<uint32_t>(test::scaled(400000));
    double worst = 0.0;
    Vector x;
    Vector y;
    for (uint64_t bits = 0; bits < last; bits += 4 * static_cast<uint64_t>(stride)) {
      for (size_t lane = 0; lane < 8; ++lane) {
        const uint64_t offset = std::min<uint64_t>(bits + lane / 2 * stride, last - 1);
        const float value = std::bit_cast<float>(static_cast<uint32_t>(offset));
        x[lane] = lane % 2 ? -value : value;
      }
      apply(x, y);
      for (size_t lane = 0; lane < 8; ++lane) {
        const double exact = wanted(static_cast<double>(x[lane]));
        worst = std::max(worst, std::abs(static_cast<double>(y[lane]) - exact) /
                                    std::max(std::abs(exact), floor));
      }
    }
    return worst;
  }
};

constexpr double kSmallestNormal = 0x1p-126;

TEST_F(VectorMath, Exp) {
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_error(apply_exp, exact, 87.3f, kSmallestNormal), 1.8e-7);
  EXPECT_LT(worst_error(apply_exp, exact, 88.7f, kSmallestNormal), 2e-7);
}

TEST_F(VectorMath, ExpAtTheEdges) {
  Vector y;
  apply_exp({0.0f, -0.0f, kInf, -kInf, kNan, 88.8f, -104.5f, -5e5f}, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], kInf);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], kInf);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], 0.0f);
  apply_exp({-100.0f, -95.0f, -90.0f, -88.0f, 88.72f, 1.0f, -1.0f, 0.5f}, y);
  for (size_t i = 0; i < 4; ++i) {  // subnormal results
    const double x[] = {-100.0, -95.0, -90.0, -88.0};
    EXPECT_NEAR(y[i], std::exp(x[i]), 0x1p-149) << x[i];
  }
  EXPECT_NEAR(y[4] / std::exp(static_cast<double>(88.72f)), 1.0, 2e-7);
}

TEST_F(VectorMath, Sigmoid) {
  const auto exact = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  EXPECT_LT(worst_error(apply_sigmoid, exact, 87.0f, kSmallestNormal), 3e-7);
  Vector y;
  apply_sigmoid({kInf, -kInf, kNan, 0.0f, 5e5f, -5e5f, 1.0f, 1.0f}, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.5f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], 0.0f);
}

TEST_F(VectorMath, Silu) {
  const auto exact = [](double x) { return x / (1.0 + std::exp(-x)); };
  EXPECT_LT(worst_error(apply_silu, exact, 87.0f, kSmallestNormal), 3e-7);
  Vector y;
  apply_silu({0.0f, 5e5f, -5e5f, kNan, 1.0f, 1.0f, 1.0f, 1.0f}, y);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 5e5f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST_F(VectorMath, Tanh) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst_error(apply_tanh, exact, 100.0f, kSmallestNormal), 3e-7);
  Vector y;
  apply_tanh({kInf, -kInf, kNan, 0.0f, 5e5f, -5e5f, 1e-30f, -1e-30f}, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], -1.0f);
  EXPECT_EQ(y[6], 1e-30f);
  EXPECT_EQ(y[7], -1e-30f);
}

TEST_F(VectorMath, FirstLanes) {
  for (long count : {-1L, 0L, 1L, 7L, 8L, 9L, 1L << 40}) {
    Vector y{};
    store_first(count, y);
    for (long lane = 0; lane < 8; ++lane) {
      EXPECT_EQ(y[static_cast<size_t>(lane)], lane < count ? 1.0f : 0.0f) << count;
    }
  }
}

}  // namespace
}  // namespace headrace
#endif
