// SPDX-License-Identifier: Apache-2.0
// Long prompts at the head size of real models, and what accuracy they reach: the figures of
// docs/gdn.md are what this prints.
#include <gtest/gtest.h>

#include <cstdio>

#include "gdn/gdn_test_util.h"
#include "tests/support/scale.h"

namespace headrace::gdn::test {
namespace {

void expect_accuracy(const GdnShape& shape, int tokens) {
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, tokens, 7);
  Reference reference(layer);
  std::vector<double> expected;
  for (int t = 0; t < tokens; ++t) {
    reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
  }
  for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
    Bench bench(layer, 2, 0, 0, 1, *kernels);
    const std::vector<float> out = bench.run({make_row(tokens, 0, 1, 1)}, x);
    const double out_error = relative_error(out, expected);
    const double state_error = relative_error(bench.state(1), reference.state());
    EXPECT_LE(out_error, 1e-5);
    EXPECT_LE(state_error, 1e-5);
    std::printf("prompt of %d, K %d V %d, %s: out %.1e, S %.1e\n", tokens, shape.k_dim, shape.v_dim,
                kernels == &scalar_kernels() ? "scalar" : "chosen", out_error, state_error);
  }
}

TEST(GdnSlow, PromptOf32768) {
  expect_accuracy(make_shape(1, 2, 128, 128), headrace::test::scaled(32768));
}

TEST(GdnSlow, LengthsAtRealHeadSize) {
  for (int tokens : {1, 63, 64, 65, 111, 192, 1024, 4096}) {
    expect_accuracy(make_shape(1, 2, 128, 128), tokens);
  }
  expect_accuracy(make_shape(2, 4, 256, 128), 300);
}

// Decode alone for thousands of steps: errors do not pile up.
TEST(GdnSlow, DecodeOf8192Steps) {
  const GdnShape shape = make_shape(1, 1, 64, 64);
  const Layer layer(shape);
  const int tokens = headrace::test::scaled(8192);
  const std::vector<float> x = random_tokens(shape, tokens, 7);
  Reference reference(layer);
  std::vector<double> expected;
  std::vector<float> out;
  Bench bench(layer, 2);
  for (int t = 0; t < tokens; ++t) {
    reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
    const std::vector<float> next =
        bench.run({make_row(1, t, 1, 1)}, slice(x, shape.projection_dim(), t, t + 1));
    out.insert(out.end(), next.begin(), next.end());
  }
  EXPECT_LE(relative_error(out, expected), 1e-5);
  EXPECT_LE(relative_error(bench.state(1), reference.state()), 1e-5);
}

}  // namespace
}  // namespace headrace::gdn::test
