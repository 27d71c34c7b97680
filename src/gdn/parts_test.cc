// SPDX-License-Identifier: Apache-2.0
// The parts of gdn_mix as ops of their own: the convolution's and the post-convolution's numbers,
// the delta rule on given gates in all formats, the gated norm.
#include <gtest/gtest.h>

#include "gdn/gates.h"
#include "gdn/gdn.h"
#include "gdn/gdn_test_util.h"

namespace headrace::gdn::test {
namespace {

constexpr double kBar = 1e-5;

const char* name_of(GateFormat format) {
  return format == GateFormat::kLog ? "log" : format == GateFormat::kLog2 ? "log2" : "linear";
}

// Inputs of the delta rule for one row of `tokens` tokens, and the step they belong to.
struct DeltaCase {
  DeltaCase(const GdnShape& s, int num_tokens, unsigned seed)
      : shape(s),
        tokens(num_tokens),
        step({make_row(num_tokens, 0, 1, 1)}),
        slot(static_cast<size_t>(2 * slot_words(s, 0)), kNan) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    const auto units = [&](int heads, int dim, float scale) {
      std::vector<float> x(static_cast<size_t>(heads * tokens * dim));
      for (float& value : x) value = normal(rng);
      for (int i = 0; i < heads * tokens; ++i) {
        double square = 0.0;
        for (int j = 0; j < dim; ++j) square += std::pow(x[static_cast<size_t>(i * dim + j)], 2);
        for (int j = 0; j < dim; ++j) {
          x[static_cast<size_t>(i * dim + j)] *= scale / static_cast<float>(std::sqrt(square));
        }
      }
      return x;
    };
    q = units(s.num_k_heads, s.k_dim, 1.0f / std::sqrt(static_cast<float>(s.k_dim)));
    k = units(s.num_k_heads, s.k_dim, 1.0f);
    v.resize(static_cast<size_t>(s.num_v_heads * tokens * s.v_dim));
    for (float& value : v) value = normal(rng);
    for (int i = 0; i < tokens * s.num_v_heads; ++i) {
      g.push_back(-16.0f * std::exp(3.0f * normal(rng) - 4.0f));
      beta.push_back(1.0f / (1.0f + std::exp(-normal(rng))));
    }
  }

  // o [tokens, Hv · V] and then S.
  std::vector<float> run(GateFormat format, const CpuKernels& kernels) {
    std::vector<float> gate = g;
    for (float& value : gate) value = encode_gate(value, format);
    std::vector<float> out(static_cast<size_t>(tokens * shape.value_dim()), kNan);
    std::vector<float> workspace(
        static_cast<size_t>(delta_rule_workspace_floats(shape, step.view().limits)), kNan);
    DeltaRuleParams params;
    params.shape = shape;
    params.q = q.data();
    params.k = k.data();
    params.v = v.data();
    params.q_stride = params.k_stride = head_major(shape.k_dim, step.view().limits);
    params.v_stride = head_major(shape.v_dim, step.view().limits);
    params.gate = gate.data();
    params.gate_format = format;
    params.beta = beta.data();
    params.slots = {slot.data(), 2, slot_words(shape, 0), 0};
    params.out = out.data();
    params.out_stride = shape.value_dim();
    params.workspace = workspace.data();
    params.step = step.view();
    delta_rule(step.pool(), kernels, params);
    const float* state = slot_data(params.slots, 1) + slot_layout(shape, 0).state;
    out.insert(out.end(), state, state + int64_t{shape.value_dim()} * shape.k_dim);
    return out;
  }

  std::vector<double> expected() const {
    std::vector<double> state(static_cast<size_t>(shape.value_dim()) * shape.k_dim);
    std::vector<double> result;
    for (int t = 0; t < tokens; ++t) {
      for (int row = 0; row < shape.value_dim(); ++row) {
        const int h = row / shape.v_dim;
        const int kh = h / (shape.num_v_heads / shape.num_k_heads);
        double* s = &state[static_cast<size_t>(row) * shape.k_dim];
        const size_t at = static_cast<size_t>((kh * tokens + t) * shape.k_dim);
        const size_t gate = static_cast<size_t>(t * shape.num_v_heads + h);
        double sk = 0.0;
        for (int i = 0; i < shape.k_dim; ++i) {
          s[i] *= std::exp(double{g[gate]});
          sk += s[i] * k[at + i];
        }
        const double value =
            v[static_cast<size_t>((h * tokens + t) * shape.v_dim + row % shape.v_dim)];
        double o = 0.0;
        for (int i = 0; i < shape.k_dim; ++i) {
          s[i] += beta[gate] * (value - sk) * k[at + i];
          o += s[i] * q[at + i];
        }
        result.push_back(o);
      }
    }
    result.insert(result.end(), state.begin(), state.end());
    return result;
  }

  GdnShape shape;
  int tokens;
  headrace::test::TestStep step;
  std::vector<float> slot, q, k, v, g, beta;
};

TEST(DeltaRule, AllGateFormatsAgainstDouble) {
  for (const GdnShape& shape : {make_shape(1, 2, 32, 48), make_shape(2, 4, 48, 32)}) {
    for (int tokens : {1, 7, 23, 24, 64, 111, 192}) {
      DeltaCase test(shape, tokens, 8);
      const std::vector<double> expected = test.expected();
      for (GateFormat format : {GateFormat::kLog, GateFormat::kLog2, GateFormat::kLinear}) {
        for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
          EXPECT_LE(relative_error(test.run(format, *kernels), expected), kBar)
              << tokens << " tokens, " << name_of(format);
        }
      }
    }
  }
}

// Resets exactly at, before and behind every tile edge of the chunked form; behind them hardly any
// decay, so that what the reset let through would show.
TEST(DeltaRule, ResetsInsideAChunk) {
  for (int reset : {0, 1, 5, 6, 7, 15, 16, 17, 31, 62, 63, 64, 65, 100}) {
    DeltaCase test(make_shape(1, 1, 16, 16), 128, 9);
    for (float& value : test.g) value = -1e-6f;
    test.g[static_cast<size_t>(reset)] = -kInf;
    const std::vector<double> expected = test.expected();
    for (GateFormat format : {GateFormat::kLog, GateFormat::kLog2, GateFormat::kLinear}) {
      for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
        EXPECT_LE(relative_error(test.run(format, *kernels), expected), kBar)
            << reset << " " << name_of(format);
      }
    }
  }
}

// Many clamped gates make the cumulative decay large; what lies behind them must keep its digits.
TEST(DeltaRule, DigitsSurviveManyResets) {
  DeltaCase test(make_shape(1, 1, 16, 16), 64, 10);
  for (size_t t = 0; t < 64; ++t) test.g[t] = t < 40 ? -1000.0f : -0.01f;
  for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
    EXPECT_LE(relative_error(test.run(GateFormat::kLog, *kernels), test.expected()), 2e-6);
  }
}

TEST(DeltaRule, RealHeadSize) {
  DeltaCase test(make_shape(1, 2, 128, 128), 200, 11);
  EXPECT_LE(relative_error(test.run(GateFormat::kLog, cpu_kernels()), test.expected()), kBar);
}

TEST(PostConv, FormatsDifferOnlyInTheGate) {
  const GdnShape shape = make_shape(2, 6, 20, 12);
  const Layer layer(shape);
  constexpr int kTokens = 9;
  const std::vector<float> x = random_tokens(shape, kTokens, 2);
  headrace::test::TestStep step({make_row(kTokens, 0, 1, 1)}, {.max_tokens = kTokens + 2});
  std::vector<float> conv = random_tokens(shape, kTokens, 3);
  struct Result {
    std::vector<float> q, k, v, gate, beta;
  };
  const auto run = [&](GateFormat format) {
    const size_t n = kTokens + 2;
    Result result{std::vector<float>(n * shape.key_dim(), kNan),
                  std::vector<float>(n * shape.key_dim(), kNan),
                  std::vector<float>(n * shape.value_dim(), kNan),
                  std::vector<float>(n * shape.num_v_heads, kNan),
                  std::vector<float>(n * shape.num_v_heads, kNan)};
    PostConvParams params;
    params.shape = shape;
    params.conv = conv.data();
    params.b = x.data() + column_b(shape);
    params.a = x.data() + column_a(shape);
    params.gate_stride = shape.projection_dim();
    params.a_log = layer.a_log.data();
    params.dt_bias = layer.dt_bias.data();
    params.gate_format = format;
    params.q = result.q.data();
    params.k = result.k.data();
    params.v = result.v.data();
    params.q_stride = params.k_stride = head_major(shape.k_dim, step.view().limits);
    params.v_stride = head_major(shape.v_dim, step.view().limits);
    params.gate = result.gate.data();
    params.beta = result.beta.data();
    params.step = step.view();
    post_conv(step.stream(), params);
    return result;
  };
  const Result log = run(GateFormat::kLog);
  for (GateFormat format : {GateFormat::kLog2, GateFormat::kLinear}) {
    const Result other = run(format);
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](float left, float right) {
        return left == right || (std::isnan(left) && std::isnan(right));
      });
    };
    EXPECT_TRUE(same(other.q, log.q) && same(other.k, log.k) && same(other.v, log.v) &&
                same(other.beta, log.beta));
    for (size_t i = 0; i < kTokens * 6u; ++i) {
      EXPECT_EQ(other.gate[i], encode_gate(log.gate[i], format));
    }
  }
  // Against the equations, and nothing written for padding tokens.
  for (int t = 0; t < kTokens; ++t) {
    for (int h = 0; h < shape.num_k_heads; ++h) {
      double square_q = 0.0;
      double square_k = 0.0;
      const auto silu64 = [](double value) { return value / (1.0 + std::exp(-value)); };
      const float* in_q = &conv[static_cast<size_t>(t * shape.conv_dim() + h * shape.k_dim)];
      const float* in_k = in_q + shape.key_dim();
      for (int i = 0; i < shape.k_dim; ++i) {
        square_q += std::pow(silu64(in_q[i]), 2);
        square_k += std::pow(silu64(in_k[i]), 2);
      }
      for (int i = 0; i < shape.k_dim; ++i) {
        const size_t at = static_cast<size_t>((h * (kTokens + 2) + t) * shape.k_dim + i);
        EXPECT_NEAR(log.q[at], silu64(in_q[i]) / std::sqrt((square_q + 1e-6) * shape.k_dim), 1e-6);
        EXPECT_NEAR(log.k[at], silu64(in_k[i]) / std::sqrt(square_k + 1e-6), 1e-6);
      }
    }
  }
  EXPECT_TRUE(std::isnan(log.gate[kTokens * 6u]) && std::isnan(log.beta[kTokens * 6u]));
}

TEST(PostConv, ZeroVectorsStayFinite) {
  const GdnShape shape = make_shape(1, 1, 8, 8);
  const Layer layer(shape);
  headrace::test::TestStep step({make_row(1, 0, 1, 1)});
  const std::vector<float> zeros(static_cast<size_t>(shape.projection_dim()), 0.0f);
  std::vector<float> q(8, kNan), k(8, kNan), v(8, kNan), gate(1), beta(1);
  PostConvParams params{.shape = shape,
                        .conv = zeros.data(),
                        .b = zeros.data(),
                        .a = zeros.data(),
                        .gate_stride = 1,
                        .a_log = layer.a_log.data(),
                        .dt_bias = layer.dt_bias.data(),
                        .q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .q_stride = head_major(8, step.view().limits),
                        .k_stride = head_major(8, step.view().limits),
                        .v_stride = head_major(8, step.view().limits),
                        .gate = gate.data(),
                        .beta = beta.data(),
                        .step = step.view()};
  for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
    post_conv(step.pool(), *kernels, params);
    EXPECT_EQ(q, std::vector<float>(8, 0.0f));
    EXPECT_EQ(k, std::vector<float>(8, 0.0f));
    EXPECT_EQ(v, std::vector<float>(8, 0.0f));
    EXPECT_EQ(beta[0], 0.5f);
  }
}

TEST(CausalConv, WidthsAndChannelsAgainstDouble) {
  for (int width : {1, 2, 3, 4, 5, 8}) {
    for (int dim : {1, 3, 8, 17, 70}) {
      const GdnShape shape = make_shape(1, 1, dim, dim + 1, width);
      const Layer layer(shape);
      constexpr int kTokens = 67;
      const std::vector<float> x = random_tokens(shape, kTokens, 4);
      headrace::test::TestStep step({make_row(kTokens, 0, 0, 0)});
      for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
        std::vector<float> out(static_cast<size_t>(kTokens * shape.conv_dim()), kNan);
        causal_conv(step.pool(), *kernels,
                    {.shape = shape,
                     .x = x.data(),
                     .x_stride = shape.projection_dim(),
                     .weight = layer.conv_weight.data(),
                     .slots = {nullptr, 1, slot_words(shape, 0), 0},
                     .out = out.data(),
                     .step = step.view()});
        for (int t = 0; t < kTokens; ++t) {
          for (int c = 0; c < shape.conv_dim(); ++c) {
            double sum = 0.0;
            for (int i = 0; i < width; ++i) {
              const int from = t - width + 1 + i;
              if (from < 0) continue;
              sum += double{layer.conv_weight[static_cast<size_t>(c * width + i)]} *
                     x[static_cast<size_t>(from * shape.projection_dim() + c)];
            }
            ASSERT_NEAR(out[static_cast<size_t>(t * shape.conv_dim() + c)], sum, 2e-6)
                << "width " << width << " token " << t << " channel " << c;
          }
        }
      }
    }
  }
}

TEST(GatedNorm, AgainstDoubleAndZerosForPadding) {
  for (int dim : {1, 5, 8, 20, 128}) {
    const GdnShape shape = make_shape(1, 3, 8, dim);
    const Layer layer(shape);
    constexpr int kTokens = 5;
    headrace::test::TestStep step({make_row(kTokens, 0, 0, 0)}, {.max_tokens = kTokens + 3});
    const std::vector<float> z = random_tokens(shape, kTokens + 3, 5);
    for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
      std::vector<float> out = random_tokens(shape, kTokens + 3, 6);
      out.resize(static_cast<size_t>((kTokens + 3) * shape.value_dim()));
      const std::vector<float> o = out;
      gated_norm(step.pool(), *kernels,
                 {.shape = shape,
                  .z = z.data(),
                  .z_stride = shape.projection_dim(),
                  .weight = layer.norm_weight.data(),
                  .eps = 1e-5f,
                  .out = out.data(),
                  .out_stride = shape.value_dim(),
                  .step = step.view()});
      for (int i = 0; i < (kTokens + 3) * shape.value_dim(); ++i) {
        const int t = i / shape.value_dim();
        const int column = i % shape.value_dim();
        if (t >= kTokens) {
          ASSERT_EQ(out[static_cast<size_t>(i)], 0.0f);
          continue;
        }
        double square = 0.0;
        for (int j = 0; j < dim; ++j) {
          square += std::pow(o[static_cast<size_t>(i - column % dim + j)], 2);
        }
        const double gate = z[static_cast<size_t>(t * shape.projection_dim() + column)];
        const double expected = layer.norm_weight[static_cast<size_t>(column % dim)] *
                                o[static_cast<size_t>(i)] / std::sqrt(square / dim + 1e-5) * gate /
                                (1.0 + std::exp(-gate));
        ASSERT_NEAR(out[static_cast<size_t>(i)], expected, 1e-6 + 1e-6 * std::abs(expected));
      }
    }
  }
}

}  // namespace
}  // namespace headrace::gdn::test
