// SPDX-License-Identifier: Apache-2.0
// The ops of the CPU backend's table over steps with rows of every kind: what they compute for the
// step's tokens, that they leave the rest alone, and that a captured op follows the step.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/float16.h"
#include "ops/backend.h"
#include "ops/sampling.h"
#include "tests/support/step_builder.h"

namespace headrace::ops {
namespace {

using test::TestRow;
using test::TestStep;

constexpr float kGuard = -777.0f;
constexpr int32_t kMaxTokens = 40;

std::vector<float> normals(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<TestRow> rows() {
  return {{.query_len = 1, .context_len = 20}, {},
          {.query_len = 9, .context_len = 3},  {.query_len = 4, .context_len = 30, .num_drafts = 3},
          {.query_len = 6, .flags = 0},        {.query_len = 1}};
}
TestStep make_step(int threads = 2) {
  return TestStep(rows(), {.max_tokens = kMaxTokens, .padded_rows = 8, .num_threads = threads});
}
constexpr int64_t kTokens = 21;
constexpr int64_t kLogitTokens = 1 + 1 + 4 + 1;

// `width` floats a token for a whole bucket; values for all, as padding must not matter.
std::vector<float> tokens_of(int64_t width, uint32_t seed = 1) {
  return normals(static_cast<size_t>(kMaxTokens * width), seed);
}
std::vector<float> guards(int64_t width) {
  return std::vector<float>(static_cast<size_t>(kMaxTokens * width), kGuard);
}
void expect_guards_from(const std::vector<float>& out, int64_t first) {
  for (size_t i = static_cast<size_t>(first); i < out.size(); ++i) ASSERT_EQ(out[i], kGuard) << i;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(CpuOps, TheStepHasTheCountsThatTheseTestsExpect) {
  TestStep step = make_step();
  ASSERT_EQ(step.view().counts->num_tokens, kTokens);
  ASSERT_EQ(step.view().counts->num_logit_tokens, kLogitTokens);
}

TEST(CpuOps, Embedding) {
  TestStep step = make_step();
  constexpr int64_t kVocab = 50;
  constexpr int64_t kHidden = 19;
  const std::vector<float> table = normals(kVocab * kHidden);
  std::vector<uint16_t> bf16;
  std::vector<uint16_t> fp16;
  for (float x : table) {
    bf16.push_back(from_float<BF16>(x).bits);
    fp16.push_back(from_float<F16>(x).bits);
  }
  std::vector<int32_t> ids(kMaxTokens);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % kVocab);
  ids[3] = -1;
  ids[4] = kVocab;
  ids[5] = std::numeric_limits<int32_t>::max();
  ids[6] = kVocab - 1;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const void* data = dtype == DType::kF32    ? static_cast<const void*>(table.data())
                       : dtype == DType::kBF16 ? bf16.data()
                                               : fp16.data();
    std::vector<float> out = guards(kHidden);
    cpu_backend().embedding(
        step.stream(), {.table = {.data = data, .dtype = dtype, .rows = kVocab, .cols = kHidden},
                        .ids = ids.data(),
                        .out = out.data(),
                        .step = step.view()});
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t d = 0; d < kHidden; ++d) {
        float wanted = 0.0f;
        if (ids[t] >= 0 && ids[t] < kVocab) {
          const size_t at = static_cast<size_t>(ids[t]) * kHidden + d;
          wanted = dtype == DType::kF32    ? table[at]
                   : dtype == DType::kBF16 ? to_float(BF16{bf16[at]})
                                           : to_float(F16{fp16[at]});
        }
        ASSERT_EQ(out[t * kHidden + d], wanted);
      }
    }
    expect_guards_from(out, kTokens * kHidden);
  }
  EXPECT_THROW(cpu_backend().embedding(step.stream(),
                                       {.table = {.dtype = DType::kI32}, .step = step.view()}),
               InternalError);
}

TEST(CpuOps, AddRmsNorm) {
  TestStep step = make_step();
  constexpr int32_t kHidden = 100;
  const std::vector<float> before = tokens_of(kHidden, 1);
  const std::vector<float> delta = tokens_of(kHidden, 2);
  const std::vector<float> weight = normals(kHidden, 3);
  for (const float* added : {static_cast<const float*>(nullptr), delta.data()}) {
    std::vector<float> residual = before;
    std::vector<float> out = guards(kHidden);
    cpu_backend().add_rms_norm(step.stream(), {.residual = residual.data(),
                                               .delta = added,
                                               .weight = weight.data(),
                                               .weight_offset = 1.0f,
                                               .eps = 1e-5f,
                                               .out = out.data(),
                                               .hidden = kHidden,
                                               .step = step.view()});
    for (size_t t = 0; t < kMaxTokens; ++t) {
      double squares = 0.0;
      for (size_t i = t * kHidden; i < (t + 1) * kHidden; ++i) {
        const bool summed = t < kTokens && added != nullptr;
        ASSERT_EQ(residual[i], summed ? before[i] + delta[i] : before[i]);
        squares += static_cast<double>(residual[i]) * static_cast<double>(residual[i]);
      }
      for (size_t d = 0; t < kTokens && d < kHidden; ++d) {
        const double wanted = residual[t * kHidden + d] / std::sqrt(squares / kHidden + 1e-5) *
                              (1.0 + static_cast<double>(weight[d]));
        ASSERT_NEAR(out[t * kHidden + d], wanted, 1e-6 * (1 + std::abs(wanted)));
      }
    }
    expect_guards_from(out, kTokens * kHidden);
  }
}

TEST(CpuOps, LinearOverTokensAndOverLogitTokens) {
  TestStep step = make_step();
  constexpr int64_t kRows = 37;
  constexpr int64_t kCols = 29;
  const std::vector<float> values = normals(kRows * kCols, 4);
  auto weight = cpu_backend().prepare_weight(
      {{.data = values.data(), .dtype = DType::kF32, .rows = kRows, .cols = kCols}}, DType::kF32);
  ASSERT_TRUE(weight.ok());
  const std::vector<float> x = tokens_of(kCols, 5);
  const std::vector<float> bias = normals(kRows, 6);
  for (TokenCount count : {TokenCount::kTokens, TokenCount::kLogitTokens}) {
    std::vector<float> out = guards(kRows);
    cpu_backend().linear(step.stream(), {.weight = weight->get(),
                                         .bias = bias.data(),
                                         .x = x.data(),
                                         .x_stride = kCols,
                                         .out = out.data(),
                                         .out_stride = kRows,
                                         .count = count,
                                         .step = step.view()});
    const int64_t tokens = count == TokenCount::kTokens ? kTokens : kLogitTokens;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t r = 0; r < kRows; ++r) {
        double wanted = bias[static_cast<size_t>(r)];
        for (int64_t k = 0; k < kCols; ++k) {
          wanted += static_cast<double>(values[static_cast<size_t>(r * kCols + k)]) *
                    static_cast<double>(x[static_cast<size_t>(t * kCols + k)]);
        }
        ASSERT_NEAR(out[static_cast<size_t>(t * kRows + r)], wanted, 2e-5);
      }
    }
    expect_guards_from(out, tokens * kRows);
  }
  EXPECT_THROW(cpu_backend().linear(step.stream(), LinearParams()), InternalError);
}

TEST(CpuOps, HeadGate) {
  TestStep step = make_step();
  const attention::HeadShape heads{.num_q_heads = 3, .num_kv_heads = 1, .head_dim = 24};
  constexpr int64_t kStride = 3 * 2 * 24 + 2 * 24 + 5;
  const std::vector<float> projection = tokens_of(kStride, 7);
  const std::vector<float> before = tokens_of(72, 8);
  std::vector<float> out = before;
  cpu_backend().head_gate(step.stream(), {.heads = heads,
                                          .projection = projection.data(),
                                          .projection_stride = kStride,
                                          .out = out.data(),
                                          .step = step.view()});
  for (size_t t = 0; t < kMaxTokens; ++t) {
    for (size_t h = 0; h < 3; ++h) {
      for (size_t d = 0; d < 24; ++d) {
        const size_t at = t * 72 + h * 24 + d;
        const double gate = projection[t * kStride + (2 * h + 1) * 24 + d];
        const double wanted = t < kTokens ? before[at] * sigmoid(gate) : before[at];
        ASSERT_NEAR(out[at], wanted, 1e-6);
      }
    }
  }
}

TEST(CpuOps, SwiGlu) {
  TestStep step = make_step();
  constexpr int32_t kWidth = 43;
  const std::vector<float> gate_up = tokens_of(2 * kWidth, 9);
  std::vector<float> out = guards(kWidth);
  cpu_backend().swiglu(
      step.stream(),
      {.gate_up = gate_up.data(), .out = out.data(), .intermediate = kWidth, .step = step.view()});
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t d = 0; d < kWidth; ++d) {
      const double gate = gate_up[t * 2 * kWidth + d];
      const double wanted = gate * sigmoid(gate) * gate_up[t * 2 * kWidth + kWidth + d];
      ASSERT_NEAR(out[t * kWidth + d], wanted, 1e-6 * (1 + std::abs(wanted)));
    }
  }
  expect_guards_from(out, kTokens * kWidth);
}

TEST(CpuOps, GatherLogitRows) {
  TestStep step = make_step();
  constexpr int32_t kHidden = 10;
  const std::vector<float> x = tokens_of(kHidden, 10);
  std::vector<float> out = guards(kHidden);
  cpu_backend().gather_logit_rows(
      step.stream(), {.x = x.data(), .out = out.data(), .hidden = kHidden, .step = step.view()});
  // The last of decode and prefill rows that emit, all of the verify row.
  const size_t tokens[] = {0, 9, 10, 11, 12, 13, 20};
  for (size_t i = 0; i < kLogitTokens; ++i) {
    for (size_t d = 0; d < kHidden; ++d) {
      ASSERT_EQ(out[i * kHidden + d], x[tokens[i] * kHidden + d]);
    }
  }
  expect_guards_from(out, kLogitTokens * kHidden);
}

TEST(CpuOps, SampleTakesEachRowsSettings) {
  TestStep step = make_step();
  constexpr int64_t kVocab = 300;
  const std::vector<float> logits = tokens_of(kVocab, 11);
  std::vector<RowSampling> sampling(8);
  for (size_t r = 0; r < 6; ++r) {
    sampling[r] = {.temperature = r == 0 ? 0.0f : 1.5f,
                   .top_p = 0.95f,
                   .top_k = 100,
                   .choice_index = static_cast<uint32_t>(r),
                   .seed = 40 + r,
                   .output_position = static_cast<int32_t>(3 * r)};
  }
  std::vector<int32_t> ids(kMaxTokens, -5);
  cpu_backend().sample(step.stream(), {.logits = logits.data(),
                                       .vocab = kVocab,
                                       .rows = sampling.data(),
                                       .token_ids = ids.data(),
                                       .step = step.view()});
  const size_t row_of[] = {0, 2, 3, 3, 3, 3, 5};
  const int32_t draft_of[] = {0, 0, 0, 1, 2, 3, 0};
  std::vector<int32_t> scratch;
  for (size_t i = 0; i < kLogitTokens; ++i) {
    EXPECT_EQ(ids[i], sample_token(logits.data() + i * kVocab, kVocab, sampling[row_of[i]],
                                   draft_of[i], scratch));
  }
  for (size_t i = kLogitTokens; i < kMaxTokens; ++i) EXPECT_EQ(ids[i], -5);
}

TEST(CpuOps, ACapturedOpFollowsTheStep) {
  TestStep step = make_step();
  constexpr int32_t kWidth = 8;
  const std::vector<float> gate_up = tokens_of(2 * kWidth, 12);
  std::vector<float> out = guards(kWidth);
  step.stream().begin_capture();
  cpu_backend().swiglu(
      step.stream(),
      {.gate_up = gate_up.data(), .out = out.data(), .intermediate = kWidth, .step = step.view()});
  const CpuGraph graph = step.stream().end_capture();
  expect_guards_from(out, 0);
  step.set_rows({{.query_len = 3}, {.query_len = 2, .context_len = 5}});
  step.rebuild();
  step.stream().launch(graph);
  EXPECT_NE(out[4 * kWidth], kGuard);
  expect_guards_from(out, 5 * kWidth);
}

}  // namespace
}  // namespace headrace::ops
