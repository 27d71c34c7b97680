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
  for (int tokens : {1, 2, 3, 4, 31, 61, 63, 64, 65, 91, 111, 129, 192, 251, 511, 1024, 4096}) {
    expect_prefill(make_shape(1, 2, 32, 32), tokens, cpu_kernels());
    expect_prefill(make_shape(1, 2, 32, 32), tokens, scalar_kernels());
  }
}

TEST(GdnMix, RaggedBatchesOfFreshPrompts) {
  const GdnShape shape = make_shape(2, 4, 32, 24);
  const Layer layer(shape);
  for (const std::vector<int>& lengths :
       {std::vector<int>{5, 64, 1, 130, 63}, {1, 1, 1, 200}, {0, 65, 0, 7, 0}, {0}, {}}) {
    int tokens = 0;
    std::vector<Row> rows;
    for (int length : lengths) {
      const int slot = static_cast<int>(rows.size()) + 1;
      rows.push_back(make_row(length, 0, slot, slot));
      tokens += length;
    }
    Bench bench(layer, static_cast<int>(rows.size()) + 1);
    const std::vector<float> x = random_tokens(shape, tokens, 21);
    const std::vector<float> out = bench.run(rows, x);
    std::vector<double> expected;
    int token = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      Reference reference(layer);
      for (int t = 0; t < rows[r].query_len; ++t, ++token) {
        reference.step(&x[static_cast<size_t>(token) * shape.projection_dim()], nullptr, &expected);
      }
      if (rows[r].query_len == 0) continue;
      const int slot = static_cast<int>(r) + 1;
      EXPECT_LE(relative_error(bench.state(slot), reference.state()), kBar);
      EXPECT_EQ(relative_error(bench.window(slot), reference.window()), 0.0);
    }
    EXPECT_LE(relative_error(slice(out, shape.value_dim(), 0, tokens), expected), kBar);
  }
}

// Gates at their ends: no decay at all, a full reset in the middle of a chunk with and without
// decay behind it, many resets, a long stretch of strong decay.
TEST(GdnMix, ExtremeGates) {
  const GdnShape shape = make_shape(1, 2, 32, 32);
  Layer layer(shape);
  layer.a_log = {0.0f, std::log(16.0f)};
  layer.dt_bias = {0.0f, 0.0f};
  constexpr int kTokens = 150;
  enum Pattern { kNoDecay, kOneReset, kResetThenNone, kManyResets, kStrong, kTinyDecay };
  for (Pattern pattern : {kNoDecay, kOneReset, kResetThenNone, kManyResets, kStrong, kTinyDecay}) {
    SCOPED_TRACE(pattern);
    std::vector<float> x = random_tokens(shape, kTokens, 5);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < shape.num_v_heads; ++h) {
        float& a = x[static_cast<size_t>(t) * shape.projection_dim() + column_a(shape) + h];
        if (pattern == kNoDecay) a = -kInf;
        if (pattern == kOneReset && t == 20) a = kInf;
        if (pattern == kResetThenNone) a = t == 20 ? kInf : -12.0f;
        if (pattern == kManyResets) a = t % 7 == 3 ? kInf : -9.0f;
        if (pattern == kStrong) a = 30.0f;
        if (pattern == kTinyDecay) a = -20.0f;
      }
    }
    for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
      Bench bench(layer, 2, 0, 0, 1, *kernels);
      const std::vector<float> out = bench.run({make_row(kTokens, 0, 1, 1)}, x);
      Reference reference(layer);
      std::vector<double> expected;
      for (int t = 0; t < kTokens; ++t) {
        reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
      }
      EXPECT_LE(relative_error(out, expected), kBar);
      EXPECT_LE(relative_error(bench.state(1), reference.state()), kBar);
    }
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
