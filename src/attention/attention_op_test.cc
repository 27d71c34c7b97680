// SPDX-License-Identifier: Apache-2.0
// The two ops as a stream runs them: captured, replayed with other rows, refused when impossible.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "attention/attention.h"
#include "attention/attention_test_problem.h"
#include "attention/kv_cache.h"
#include "base/check.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

TEST(AttentionOp, ReplaysWithOtherLengths) {
  const Shape shape{.heads = {4, 2, 64}};
  const test::TestStepOptions options{.max_rows = 4, .max_tokens = 100, .max_pages_per_row = 20};
  Problem problem(shape, {prefill(1, 50), decode(2, 40)}, options);
  Output output = problem.exact();
  AttentionParams params = problem.params();
  params.out = output.out.data();
  params.lse = output.lse.data();
  CpuStream& stream = problem.step().stream();
  stream.begin_capture();
  attention(stream, params);
  const CpuGraph graph = stream.end_capture();
  for (const std::vector<test::TestRow>& rows :
       std::vector<std::vector<test::TestRow>>{{{.query_len = 1, .context_len = 7}}, {{}, {}}}) {
    problem.step().set_rows(rows);
    problem.step().rebuild();
    std::fill(output.out.begin(), output.out.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(output.lse.begin(), output.lse.end(), std::numeric_limits<float>::quiet_NaN());
    stream.launch(graph);
    const auto tokens = static_cast<size_t>(problem.step().view().counts->num_tokens);
    for (size_t i = tokens * 4 * 64; i < output.out.size(); ++i) ASSERT_EQ(output.out[i], 0.0f);
    for (size_t i = tokens * 4; i < output.lse.size(); ++i) ASSERT_EQ(output.lse[i], kNone);
    for (size_t i = 0; i < tokens * 4; ++i) ASSERT_NE(output.lse[i], kNone);
  }
}

TEST(AttentionOp, RefusesShapesItCannotCompute) {
  Problem problem({}, {prefill(1, 3)});
  CpuStream& stream = problem.step().stream();
  AttentionParams params = problem.params();
  params.heads = {34, 2, 64};
  EXPECT_THROW(attention(stream, params), InternalError);
  params.heads = {3, 2, 64};
  EXPECT_THROW(attention(stream, params), InternalError);
  params.heads = {2, 2, 60};
  EXPECT_THROW(attention(stream, params), InternalError);
  params = problem.params();
  params.cache.dtype = DType::kFP8E4M3;
  EXPECT_THROW(attention(stream, params), InternalError);
}

TEST(KvWrite, WritesTheNewTokensAndNothingElse) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (Layout layout : {Layout::kNhd, Layout::kHnd}) {
      const Shape shape{.heads = {4, 2, 24},
                        .dtype = dtype,
                        .layout = layout,
                        .page_size = 8,
                        .stride_padding = 3};
      const std::vector<Sequence> batch{prefill(1, 20, 5), padding(), decode(2, 8)};
      Problem problem(shape, batch, {.max_tokens = 30, .num_threads = 2});
      const metadata::StepView& view = problem.step().view();
      KvCache cache = make_cache(shape, problem.step().num_pages());
      std::vector<float> before(static_cast<size_t>(cache_elements(cache)), 7.5f);
      std::vector<char> bytes(before.size() * dtype_size_bytes(dtype));
      cache.data = bytes.data();
      store_vector(cache, 0, cache_elements(cache), before.data());

      // k and v of a token in one vector: 2 · Hkv · D, padded with what must not be written.
      std::vector<float> packed(30 * 100, std::numeric_limits<float>::quiet_NaN());
      for (int32_t token = 0; token < view.counts->num_tokens; ++token) {
        for (int32_t i = 0; i < 96; ++i) {
          packed[static_cast<size_t>(token * 100 + i)] =
              static_cast<float>((token * 7 + i * 3) % 251);
        }
      }
      kv_write(problem.step().stream(), {.heads = shape.heads,
                                         .k = packed.data(),
                                         .k_stride = 100,
                                         .v = packed.data() + 48,
                                         .v_stride = 100,
                                         .cache = cache,
                                         .step = view});
      std::vector<float> after(before.size());
      load_vector(cache, 0, cache_elements(cache), after.data());
      for (int64_t token = 0; token < view.counts->num_tokens; ++token) {
        const int64_t slot = view.slot_mapping[token];
        for (int64_t head = 0; head < 2; ++head) {
          for (bool value : {false, true}) {
            const int64_t offset =
                key_offset(cache, slot / 8, slot % 8, head) + (value ? cache.value_offset : 0);
            for (int64_t d = 0; d < 24; ++d) {
              const auto at = static_cast<size_t>(offset + d);
              ASSERT_EQ(
                  after[at],
                  packed[static_cast<size_t>(token * 100 + head * 24 + d) + (value ? 48 : 0)]);
              after[at] = 7.5f;
            }
          }
        }
      }
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
}  // namespace headrace::attention
