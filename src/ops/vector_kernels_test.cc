// SPDX-License-Identifier: Apache-2.0
// Both sets of vector kernels against fp64, at lengths around a vector and with guards behind.
#include "ops/vector_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace headrace::ops {
namespace {

constexpr float kGuard = -12345.0f;
constexpr size_t kGuards = 8;
const int64_t kLengths[] = {1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 64, 192, 1001};

std::vector<Isa> isas() {
  if (cpu_isa() == Isa::kAvx2) return {Isa::kScalar, Isa::kAvx2};
  return {Isa::kScalar};
}

class VectorKernelsTest : public testing::TestWithParam<Isa> {
 protected:
  const VectorKernels& kernels() const { return vector_kernels(GetParam()); }

  // n values and guards behind them.
  std::vector<float> values(int64_t n, float deviation = 1.0f) {
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float> result(static_cast<size_t>(n) + kGuards, kGuard);
    for (int64_t i = 0; i < n; ++i) result[static_cast<size_t>(i)] = normal(random_);
    return result;
  }
  static void expect_guards(const std::vector<float>& vector) {
    for (size_t i = vector.size() - kGuards; i < vector.size(); ++i) ASSERT_EQ(vector[i], kGuard);
  }
  std::mt19937 random_{3};
};

TEST_P(VectorKernelsTest, AddRmsNorm) {
  for (int64_t n : kLengths) {
    for (bool has_delta : {false, true}) {
      for (float offset : {0.0f, 1.0f}) {
        for (float deviation : {1e-3f, 1.0f, 1e4f}) {
          const float eps = 1e-5f;
          const auto size = static_cast<size_t>(n);
          const std::vector<float> before = values(n, deviation);
          const std::vector<float> delta = values(n, deviation);
          const std::vector<float> weight = values(n);
          std::vector<float> residual = before;
          std::vector<float> out = values(n);
          kernels().add_rms_norm(residual.data(), has_delta ? delta.data() : nullptr, weight.data(),
                                 offset, eps, out.data(), n);
          double squares = 0.0;
          for (size_t i = 0; i < size; ++i) {
            ASSERT_EQ(residual[i], has_delta ? before[i] + delta[i] : before[i]);
            squares += static_cast<double>(residual[i]) * static_cast<double>(residual[i]);
          }
          const double rms = std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
          for (size_t i = 0; i < size; ++i) {
            const double wanted = residual[i] / rms * (static_cast<double>(weight[i]) + offset);
            ASSERT_NEAR(out[i], wanted, 1e-6 * (0.01 + std::abs(wanted))) << n;
          }
          expect_guards(residual);
          expect_guards(out);

          std::vector<float> in_place = before;
          kernels().add_rms_norm(in_place.data(), has_delta ? delta.data() : nullptr, weight.data(),
                                 offset, eps, in_place.data(), n);
          for (size_t i = 0; i < size; ++i) ASSERT_EQ(in_place[i], out[i]);
        }
      }
    }
  }
}

TEST_P(VectorKernelsTest, AddRmsNormOfZerosIsZero) {
  std::vector<float> x(20, 0.0f);
  std::vector<float> weight(20, 3.0f);
  std::vector<float> out(20, kGuard);
  kernels().add_rms_norm(x.data(), nullptr, weight.data(), 0.0f, 1e-6f, out.data(), 20);
  EXPECT_EQ(out, x);
}

TEST_P(VectorKernelsTest, SwiGlu) {
  for (int64_t n : kLengths) {
    const std::vector<float> gate = values(n, 5.0f);
    const std::vector<float> up = values(n);
    std::vector<float> out = values(n);
    kernels().swiglu(gate.data(), up.data(), out.data(), n);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const double g = gate[i];
      const double wanted = g / (1.0 + std::exp(-g)) * up[i];
      ASSERT_NEAR(out[i], wanted, 4e-7 * std::abs(wanted)) << n;
    }
    expect_guards(out);
  }
}

TEST_P(VectorKernelsTest, SigmoidGate) {
  for (int64_t n : kLengths) {
    const std::vector<float> gate = values(n, 5.0f);
    const std::vector<float> before = values(n);
    std::vector<float> out = before;
    kernels().sigmoid_gate(gate.data(), out.data(), n);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const double wanted = before[i] / (1.0 + std::exp(-static_cast<double>(gate[i])));
      ASSERT_NEAR(out[i], wanted, 4e-7 * std::abs(wanted)) << n;
    }
    expect_guards(out);
  }
}

TEST_P(VectorKernelsTest, GatesSurviveExtremeInputs) {
  const std::vector<float> gate{-5e5f, 5e5f, -100.0f, 100.0f, 0.0f, -0.0f, 88.8f, -88.8f};
  std::vector<float> out(8, 2.0f);
  kernels().sigmoid_gate(gate.data(), out.data(), 8);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_EQ(out[4], 1.0f);
  for (float x : out) EXPECT_TRUE(std::isfinite(x));
  const std::vector<float> up(8, 1.0f);
  kernels().swiglu(gate.data(), up.data(), out.data(), 8);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 5e5f);
  for (float x : out) EXPECT_TRUE(std::isfinite(x));
}

TEST_P(VectorKernelsTest, Argmax) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t n : kLengths) {
    std::vector<float> x = values(n, 5.0f);
    for (size_t i = static_cast<size_t>(n); i < x.size(); ++i) x[i] = kInf;
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      std::vector<float> y = x;
      y[static_cast<size_t>(at)] = 100.0f;
      EXPECT_EQ(kernels().argmax(y.data(), n), at);
      y[static_cast<size_t>(n - 1)] = 100.0f;  // a tie, or the same
      EXPECT_EQ(kernels().argmax(y.data(), n), at);
      if (at > 0) y[0] = kNan;
      EXPECT_EQ(kernels().argmax(y.data(), n), at);
    }
    EXPECT_EQ(kernels().argmax(std::vector<float>(static_cast<size_t>(n), kNan).data(), n), 0);
    EXPECT_EQ(kernels().argmax(std::vector<float>(static_cast<size_t>(n), -kInf).data(), n), 0);
  }
  const std::vector<float> zeros{-1.0f, -0.0f, 0.0f};
  EXPECT_EQ(kernels().argmax(zeros.data(), 3), 1);
}

INSTANTIATE_TEST_SUITE_P(Isas, VectorKernelsTest, testing::ValuesIn(isas()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

}  // namespace
}  // namespace headrace::ops
