// SPDX-License-Identifier: Apache-2.0
// Rotary embedding against values printed by transformers 5.24 (fp32, CPU).
#include "ops/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headrace::ops {
namespace {

void expect_relative(const std::vector<float>& actual, const std::vector<double>& wanted,
                     double tolerance) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(actual[i], wanted[i], tolerance * std::abs(wanted[i])) << i;
  }
}

TEST(Rope, RotaryDim) {
  EXPECT_EQ(rope_rotary_dim(128, 1.0), 128);
  EXPECT_EQ(rope_rotary_dim(128, 0.25), 32);
  EXPECT_EQ(rope_rotary_dim(256, 0.25), 64);
}

TEST(Rope, DefaultFrequenciesAreThoseOfTransformersToTheBit) {
  const std::vector<float> inv_freq = rope_default_inv_freq(10000.0, 32);
  ASSERT_EQ(inv_freq.size(), 16u);
  EXPECT_EQ(inv_freq[0], 1.0f);
  EXPECT_EQ(inv_freq[1], 0x1.1feb34p-1f);
  EXPECT_EQ(inv_freq[2], 0x1.43d136p-2f);
  EXPECT_EQ(inv_freq[3], 0x1.6c310ep-3f);
  EXPECT_EQ(inv_freq[15], 0x1.74eea6p-13f);
}

TEST(Rope, DefaultFrequenciesAgainstDouble) {
  for (double theta : {10000.0, 500000.0, 1e7}) {
    for (int32_t dim : {2, 8, 64, 128, 256}) {
      std::vector<double> wanted;
      for (int32_t i = 0; i < dim / 2; ++i) wanted.push_back(std::pow(theta, -2.0 * i / dim));
      // The exponent is rounded to fp32, which the logarithm of theta magnifies.
      expect_relative(rope_default_inv_freq(theta, dim), wanted, 1e-6);
    }
  }
  EXPECT_TRUE(rope_default_inv_freq(1e4, 0).empty());
}

TEST(Rope, LinearFrequencies) {
  expect_relative(rope_linear_inv_freq(10000.0, 16, 4.0),
                  {0x1p-2, 0x1.43d136p-4, 0x1.99999ap-6, 0x1.030dc6p-7, 0x1.47ae14p-9,
                   0x1.9e7c7p-11, 0x1.0624dep-12, 0x1.4b96cp-14},
                  0.0);
}

TEST(Rope, Llama3Frequencies) {
  // Kept, blended (from index 15) and divided ones.
  expect_relative(rope_llama3_inv_freq(500000.0, 64, 8.0, 1.0, 4.0, 8192),
                  {0x1p+0,         0x1.53c38cp-1,  0x1.c2ef78p-2,  0x1.2b3dc6p-2,  0x1.8d276p-3,
                   0x1.078d4p-3,   0x1.5dc95ap-4,  0x1.d03ccep-5,  0x1.34119p-5,   0x1.98de92p-6,
                   0x1.0f5386p-6,  0x1.681adap-7,  0x1.ddee9ep-8,  0x1.3d2804p-8,  0x1.a4ee4p-9,
                   0x1.67a23ap-10, 0x1.132ba4p-11, 0x1.765ba4p-13, 0x1.46831ap-14, 0x1.b15902p-15,
                   0x1.1f91fp-15,  0x1.7da9e8p-16, 0x1.fa8b86p-17, 0x1.5024d6p-17, 0x1.be2188p-18,
                   0x1.280d96p-18, 0x1.88ec2p-19,  0x1.04be68p-19, 0x1.5a0f4ep-20, 0x1.cb4a9ap-21,
                   0x1.30c94ep-21, 0x1.94836p-22},
                  1.2e-7);
}

TEST(Rope, CosSinAtFarPositions) {
  const std::vector<float> inv_freq = rope_default_inv_freq(10000.0, 16);
  std::vector<float> cos(8);
  std::vector<float> sin(8);
  rope_cos_sin(inv_freq.data(), 16, 1.0f, 100000, cos.data(), sin.data());
  const double wanted_cos[] = {-0x1.ffac38p-1, 0x1.c2b65cp-1,  -0x1.e780e8p-1, -0x1.0c05f8p-2,
                               0x1.1ff026p-1,  -0x1.e8e208p-2, 0x1.b9825ep-1,  0x1.f515dcp-1};
  const double wanted_sin[] = {0x1.24daaap-5, -0x1.e5ceep-2, -0x1.38f2fap-2, 0x1.ee2692p-1,
                               0x1.a75cc2p-1, 0x1.c1e162p-1, -0x1.03417ep-1, 0x1.a49dfap-3};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(cos[i], wanted_cos[i], 2e-7) << i;
    EXPECT_NEAR(sin[i], wanted_sin[i], 2e-7) << i;
  }
  std::vector<float> scaled(8);
  rope_cos_sin(inv_freq.data(), 16, 2.0f, 100000, scaled.data(), sin.data());
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(scaled[i], 2.0f * cos[i]);
}

TEST(Rope, RotatesHalvesAndLeavesTheRest) {
  const float cos[] = {0.6f, 0.0f};
  const float sin[] = {0.8f, 1.0f};
  std::vector<float> x{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  rope_rotate(cos, sin, 4, x.data());
  const std::vector<float> wanted{0.6f - 2.4f, -4.0f, 1.8f + 0.8f, 2.0f, 5.0f, 6.0f};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], wanted[i], 1e-6f) << i;
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const std::vector<float> inv_freq = rope_default_inv_freq(10000.0, 8);
  const auto score = [&](int32_t query, int32_t key) {
    std::vector<float> q{0.3f, -0.2f, 0.9f, 1.0f, -0.4f, 0.5f, 0.1f, 0.7f};
    std::vector<float> k{-0.6f, 0.8f, 0.2f, 0.4f, 1.1f, -0.3f, 0.5f, 0.9f};
    std::vector<float> cos(4);
    std::vector<float> sin(4);
    rope_cos_sin(inv_freq.data(), 8, 1.0f, query, cos.data(), sin.data());
    rope_rotate(cos.data(), sin.data(), 8, q.data());
    rope_cos_sin(inv_freq.data(), 8, 1.0f, key, cos.data(), sin.data());
    rope_rotate(cos.data(), sin.data(), 8, k.data());
    double sum = 0.0;
    for (size_t i = 0; i < 8; ++i) sum += q[i] * k[i];
    return sum;
  };
  EXPECT_NEAR(score(17, 5), score(1012, 1000), 1e-4);
  EXPECT_GT(std::abs(score(17, 5) - score(17, 6)), 1e-3);
}

}  // namespace
}  // namespace headrace::ops
