// SPDX-License-Identifier: Apache-2.0
// The decay gate against fp64 over its whole range, and the way there and back of every format.
#include "gdn/gates.h"

#include <gtest/gtest.h>

#include <limits>

namespace headrace::gdn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Gates, SoftplusOverTheWholeRange) {
  for (float x = -100.0f; x <= 100.0f; x += 0.0625f) {
    const double expected = x > 0 ? x + std::log1p(std::exp(-double{x})) : std::log1p(std::exp(x));
    EXPECT_NEAR(softplus(x), expected, 2e-7 * expected) << x;
  }
  EXPECT_EQ(softplus(-kInf), 0.0f);
  EXPECT_EQ(softplus(kInf), kInf);
  EXPECT_EQ(softplus(1e30f), 1e30f);
}

TEST(Gates, LogDecayAgainstDouble) {
  for (double rate : {1e-3, 0.5, 1.0, 16.0}) {
    for (float a = -30.0f; a <= 30.0f; a += 0.5f) {
      const auto a_log = static_cast<float>(std::log(rate));
      const double expected =
          -std::exp(double{a_log}) * std::log1p(std::exp(double{a} + double{0.25f}));
      EXPECT_NEAR(log_decay(a, a_log, 0.25f), expected, -1e-6 * expected);
    }
  }
  // At the ends: no decay, and a full reset.
  EXPECT_EQ(log_decay(-kInf, 1.0f, 0.0f), 0.0f);
  EXPECT_EQ(log_decay(kInf, 1.0f, 0.0f), -kInf);
}

TEST(Gates, EveryFormatComesBackAsTheClampedLogDecay) {
  for (float g : {0.0f, -1e-7f, -1e-3f, -0.5f, -3.0f, -20.0f, -80.0f, -87.0f}) {
    EXPECT_EQ(decode_gate(encode_gate(g, GateFormat::kLog), GateFormat::kLog), g);
    EXPECT_NEAR(decode_gate(encode_gate(g, GateFormat::kLog2), GateFormat::kLog2), g, -2e-7f * g);
    // A float near one has steps of 6e-8: that is what linear costs.
    EXPECT_NEAR(decode_gate(encode_gate(g, GateFormat::kLinear), GateFormat::kLinear), g,
                6.1e-8f - 2e-7f * g);
  }
  for (GateFormat format : {GateFormat::kLog, GateFormat::kLog2, GateFormat::kLinear}) {
    for (float g : {-88.5f, -1000.0f, -1e30f, -kInf}) {
      EXPECT_EQ(decode_gate(encode_gate(g, format), format), kMinLogDecay);
    }
    EXPECT_TRUE(std::isnan(decode_gate(std::numeric_limits<float>::quiet_NaN(), format)));
  }
  EXPECT_EQ(decode_gate(0.0f, GateFormat::kLinear), kMinLogDecay);
  EXPECT_EQ(decode_gate(0x1p-127f, GateFormat::kLinear), kMinLogDecay);
  EXPECT_NEAR(decode_gate(0x1p-126f, GateFormat::kLinear), -87.3365f, 1e-4f);
  EXPECT_EQ(decode_gate(1.0f, GateFormat::kLinear), 0.0f);
}

}  // namespace
}  // namespace headrace::gdn
