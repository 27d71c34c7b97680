// SPDX-License-Identifier: Apache-2.0
// The composite from projection to rotated queries and written pages, against fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "attention/kv_cache.h"
#include "base/check.h"
#include "ops/backend.h"
#include "ops/rope.h"
#include "tests/support/step_builder.h"

namespace headrace::ops {
namespace {

constexpr float kGuard = -777.0f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Options {
  attention::HeadShape heads{.num_q_heads = 6, .num_kv_heads = 2, .head_dim = 24};
  int32_t rotary_dim = 24;
  bool has_gate = false;
  bool has_norm = true;
  float norm_offset = 1.0f;
  DType dtype = DType::kF32;
};

std::vector<float> normals(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// rope(norm(x)) in fp64.
std::vector<double> treated(const float* x, const Options& options, const float* norm_weight,
                            const std::vector<float>& inv_freq, int32_t position) {
  const auto dim = static_cast<size_t>(options.heads.head_dim);
  std::vector<double> values(x, x + dim);
  if (options.has_norm) {
    double squares = 0.0;
    for (double value : values) squares += value * value;
    const double rms = std::sqrt(squares / static_cast<double>(dim) + 1e-6);
    for (size_t d = 0; d < dim; ++d) {
      values[d] *= (static_cast<double>(norm_weight[d]) + options.norm_offset) / rms;
    }
  }
  const size_t half = inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    // The angle is an fp32 product by contract.
    const double angle = static_cast<float>(position) * inv_freq[i];
    const double a = values[i];
    const double b = values[i + half];
    values[i] = a * std::cos(angle) - b * std::sin(angle);
    values[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
  return values;
}

void check(const Options& options) {
  constexpr int32_t kMaxTokens = 50;
  const attention::HeadShape& heads = options.heads;
  const int64_t dim = heads.head_dim;
  const int64_t q_step = options.has_gate ? 2 * dim : dim;
  const int64_t stride = heads.num_q_heads * q_step + 2 * heads.num_kv_heads * dim + 3;
  test::TestStep step({{.query_len = 1, .context_len = 1000},
                       {.query_len = 20, .context_len = 5},
                       {},
                       {.query_len = 3, .context_len = 40, .num_drafts = 2},
                       {.query_len = 17}},
                      {.page_size = 8, .max_tokens = kMaxTokens, .num_threads = 2});
  const metadata::StepView& view = step.view();
  const int64_t tokens = view.counts->num_tokens;
  ASSERT_EQ(tokens, 41);

  std::vector<float> projection = normals(static_cast<size_t>(kMaxTokens * stride), 1);
  for (size_t i = static_cast<size_t>(tokens * stride); i < projection.size(); ++i) {
    projection[i] = kNan;
  }
  const std::vector<float> q_weight = normals(static_cast<size_t>(dim), 2);
  const std::vector<float> k_weight = normals(static_cast<size_t>(dim), 3);
  const std::vector<float> inv_freq = rope_default_inv_freq(10000.0, options.rotary_dim);
  const int64_t q_size = heads.num_q_heads * dim;
  std::vector<float> q_out(static_cast<size_t>(kMaxTokens * q_size), kGuard);

  attention::KvCache cache{.dtype = options.dtype, .num_pages = step.num_pages(), .page_size = 8};
  cache.head_stride = 8 * dim;
  cache.token_stride = dim;
  cache.value_offset = heads.num_kv_heads * cache.head_stride + 8;
  cache.page_stride = 2 * cache.value_offset;
  const int64_t elements = cache.num_pages * cache.page_stride;
  std::vector<float> before(static_cast<size_t>(elements), 42.0f);
  std::vector<char> bytes(before.size() * dtype_size_bytes(options.dtype));
  cache.data = bytes.data();
  attention::store_vector(cache, 0, elements, before.data());

  cpu_backend().qkv_rope_write(
      step.stream(), {.heads = heads,
                      .projection = projection.data(),
                      .projection_stride = stride,
                      .has_gate = options.has_gate,
                      .q_norm_weight = options.has_norm ? q_weight.data() : nullptr,
                      .k_norm_weight = options.has_norm ? k_weight.data() : nullptr,
                      .norm_weight_offset = options.norm_offset,
                      .rope = {.inv_freq = inv_freq.data(), .rotary_dim = options.rotary_dim},
                      .q_out = q_out.data(),
                      .cache = cache,
                      .step = view});

  std::vector<float> after(before.size());
  attention::load_vector(cache, 0, elements, after.data());
  const double precision = options.dtype == DType::kF32    ? 3e-6
                           : options.dtype == DType::kBF16 ? 0x1p-8
                                                           : 0x1p-11;
  for (int64_t t = 0; t < tokens; ++t) {
    const float* row = projection.data() + t * stride;
    for (int64_t h = 0; h < heads.num_q_heads; ++h) {
      const auto wanted =
          treated(row + h * q_step, options, q_weight.data(), inv_freq, view.token_position[t]);
      for (int64_t d = 0; d < dim; ++d) {
        ASSERT_NEAR(q_out[static_cast<size_t>(t * q_size + h * dim + d)],
                    wanted[static_cast<size_t>(d)], 1e-5)
            << "q of token " << t << " head " << h << " dim " << d;
      }
    }
    const float* k = row + heads.num_q_heads * q_step;
    for (int64_t h = 0; h < heads.num_kv_heads; ++h) {
      const auto wanted =
          treated(k + h * dim, options, k_weight.data(), inv_freq, view.token_position[t]);
      const int64_t slot = view.slot_mapping[t];
      const int64_t offset = attention::key_offset(cache, slot / 8, slot % 8, h);
      for (int64_t d = 0; d < dim; ++d) {
        float& key = after[static_cast<size_t>(offset + d)];
        float& value = after[static_cast<size_t>(offset + cache.value_offset + d)];
        const double v = k[(heads.num_kv_heads + h) * dim + d];
        const double wanted_k = wanted[static_cast<size_t>(d)];
        ASSERT_NEAR(key, wanted_k, precision * std::abs(wanted_k) + 3e-6) << "k of token " << t;
        ASSERT_NEAR(value, v, precision * std::abs(v) + 0x1p-25) << "v of token " << t;
        key = value = 42.0f;
      }
    }
  }
  EXPECT_EQ(after, before) << "wrote where no new token lies";
  for (size_t i = static_cast<size_t>(tokens * q_size); i < q_out.size(); ++i) {
    ASSERT_EQ(q_out[i], kGuard);
  }
}

TEST(QkvRopeWrite, WithAndWithoutNormAndGate) {
  for (bool has_gate : {false, true}) {
    for (bool has_norm : {false, true}) {
      for (float offset : {0.0f, 1.0f}) {
        check({.has_gate = has_gate, .has_norm = has_norm, .norm_offset = offset});
      }
    }
  }
}

TEST(QkvRopeWrite, PartialRotation) {
  for (int32_t rotary_dim : {0, 2, 8, 22}) check({.rotary_dim = rotary_dim, .has_gate = true});
}

TEST(QkvRopeWrite, HeadShapes) {
  check({.heads = {1, 1, 8}, .rotary_dim = 8});
  check({.heads = {16, 1, 128}, .rotary_dim = 32, .has_gate = true});
  check({.heads = {5, 5, 64}, .rotary_dim = 64});
  check({.heads = {2, 1, 512}, .rotary_dim = 512});
}

TEST(QkvRopeWrite, SixteenBitCaches) {
  check({.dtype = DType::kBF16});
  check({.dtype = DType::kF16});
}

TEST(QkvRopeWrite, RefusesARotationWiderThanTheHead) {
  test::TestStep step(std::vector<test::TestRow>{{.query_len = 1}});
  float element = 0.0f;
  QkvRopeWriteParams params{.heads = {2, 1, 8},
                            .rope = {.rotary_dim = 16},
                            .cache = {.data = &element,
                                      .num_pages = 1,
                                      .value_offset = 128,
                                      .token_stride = 8,
                                      .head_stride = 128},
                            .step = step.view()};
  EXPECT_THROW(cpu_backend().qkv_rope_write(step.stream(), params), InternalError);
  params.rope.rotary_dim = 7;
  EXPECT_THROW(cpu_backend().qkv_rope_write(step.stream(), params), InternalError);
}

}  // namespace
}  // namespace headrace::ops
