// SPDX-License-Identifier: Apache-2.0
// gdn_mix against the fp64 recurrence: lengths, head counts, ragged batches, decode after prefill.
#include <gtest/gtest.h>

#include "gdn/gdn_test_util.h"

namespace headrace::gdn::test {
namespace {

constexpr double kBar = 1e-5;

// Runs `tokens` tokens as one fresh row and compares output, S and window with the reference.
void expect_prefill(const GdnShape& shape, int tokens, const CpuKernels& kernels) {
  SCOPED_TRACE(tokens);
  const Layer layer(shape);
  Bench bench(layer, 2, 0, 0, 1, kernels);
  const std::vector<float> x = random_tokens(shape, tokens, 7);
  const std::vector<float> out = bench.run({make_row(tokens, 0, 1, 1)}, x);
  Reference reference(layer);
  std::vector<double> expected;
  for (int t = 0; t < tokens; ++t) {
    reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
  }
  EXPECT_LE(relative_error(out, expected), kBar);
  EXPECT_LE(relative_error(bench.state(1), reference.state()), kBar);
  EXPECT_EQ(relative_error(bench.window(1), reference.window()), 0.0);
}

TEST(GdnMix, PrefillLengths) {
  for (int tokens : {1, 2, 3, 4, 31, 61, 63, 64, 65, 91, 111, 129, 192, 251, 511}) {
    expect_prefill(make_shape(1, 2, 32, 32), tokens, cpu_kernels());
    expect_prefill(make_shape(1, 2, 32, 32), tokens, scalar_kernels());
  }
}

TEST(GdnMix, HeadCountsAndDims) {
  for (const GdnShape& shape :
       {make_shape(1, 1, 16, 16), make_shape(2, 4, 128, 128), make_shape(2, 8, 32, 64),
        make_shape(3, 9, 24, 40), make_shape(1, 2, 7, 5), make_shape(1, 1, 64, 32, 2),
        make_shape(1, 1, 33, 65, 7), make_shape(1, 1, 512, 16), make_shape(1, 3, 9, 8, 1)}) {
    SCOPED_TRACE(testing::Message() << shape.num_k_heads << "," << shape.num_v_heads << " K "
                                    << shape.k_dim << " V " << shape.v_dim);
    for (int tokens : {1, 70, 130}) {
      expect_prefill(shape, tokens, cpu_kernels());
      expect_prefill(shape, tokens, scalar_kernels());
    }
  }
}

TEST(GdnMix, DecodeAfterPrefill) {
  const GdnShape shape = make_shape(2, 4, 32, 48);
  const Layer layer(shape);
  constexpr int kTokens = 80;
  const std::vector<float> x = random_tokens(shape, kTokens, 3);
  Reference reference(layer);
  std::vector<double> expected;
  for (int t = 0; t < kTokens; ++t) {
    reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
  }
  for (int prompt : {1, 2, 3, 50, 64, 79}) {
    SCOPED_TRACE(prompt);
    Bench bench(layer, 3);
    std::vector<float> out =
        bench.run({make_row(prompt, 0, 2, 2)}, slice(x, shape.projection_dim(), 0, prompt));
    for (int t = prompt; t < kTokens; ++t) {
      const std::vector<float> next =
          bench.run({make_row(1, t, 2, 2)}, slice(x, shape.projection_dim(), t, t + 1));
      out.insert(out.end(), next.begin(), next.end());
    }
    EXPECT_LE(relative_error(out, expected), kBar);
    EXPECT_LE(relative_error(bench.state(2), reference.state()), kBar);
    EXPECT_EQ(relative_error(bench.window(2), reference.window()), 0.0);
  }
}

}  // namespace
}  // namespace headrace::gdn::test
