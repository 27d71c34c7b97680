// SPDX-License-Identifier: Apache-2.0
// The plain attention path against fp64: every pair of element types and options, head dims and
// strides that no other kernel takes, rows of all kinds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/cuda/plain.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/pairwise.h"

namespace headrace::attention {
namespace {

using test::TestRow;

std::string run(const GpuShape& shape, const std::vector<TestRow>& rows, RowSet set,
                double tolerance) {
  GpuAttentionProblem problem(shape, rows);
  const PlainLaunch launch = value_of(prepare_plain(problem.params(), set));
  check_status(launch_plain(problem.stream().handle(), launch));
  return problem.check(set, tolerance);
}

std::vector<TestRow> rows_of_every_kind(int32_t page_size) {
  return {{},
          decode_row(2),
          prefill_row(1),
          decode_row(63),
          decode_row(64),
          verify_row(90, 4),
          prefill_row(5, 60),
          {},
          decode_row(65),
          prefill_row(page_size + 1),
          decode_row(page_size + 1),
          prefill_row(70),
          verify_row(200, 16)};
}

// Axes: q's type, the cache's, head dim, group, page size, layout, strides, window, soft cap,
// sinks + lse, rows.
GpuShape shape_of(const std::vector<int>& choice) {
  constexpr DType kIo[] = {DType::kF32, DType::kBF16, DType::kF16};
  constexpr DType kKv[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kFP8E4M3};
  constexpr int32_t kHeadDims[] = {8, 32, 40, 96, 256, 512};
  constexpr int32_t kGroups[] = {1, 2, 5, 16};
  constexpr int32_t kPages[] = {1, 8, 16, 48, 528};
  constexpr int32_t kPaddings[] = {0, 1, 8};
  constexpr int32_t kWindows[] = {0, 1, 17, 100};
  GpuShape shape;
  shape.io_dtype = kIo[choice[0]];
  shape.kv_dtype = kKv[choice[1]];
  shape.heads = {
      .num_q_heads = 2 * kGroups[choice[3]], .num_kv_heads = 2, .head_dim = kHeadDims[choice[2]]};
  shape.page_size = kPages[choice[4]];
  shape.is_hnd = choice[5] == 1;
  shape.stride_padding = kPaddings[choice[6]];
  shape.window = kWindows[choice[7]];
  shape.soft_cap = choice[8] == 1 ? 5.0f : 0.0f;
  shape.sinks = choice[9] == 1;
  shape.lse = choice[9] == 0;
  shape.scale_per_head = choice[5] == 1;
  return shape;
}

TEST(PlainGpu, EveryPairOfOptions) {
  for (const auto& choice : test::pairwise_choices({3, 4, 6, 4, 5, 2, 3, 4, 2, 2, 3})) {
    const GpuShape shape = shape_of(choice);
    EXPECT_EQ(
        run(shape, rows_of_every_kind(shape.page_size), static_cast<RowSet>(choice[10]), 1e-2), "")
        << to_string(shape);
  }
}

// fp32 throughout: only the order of sums differs from exact.
TEST(PlainGpu, IsExactInFp32) {
  GpuShape shape;
  shape.heads = {.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32};
  shape.io_dtype = shape.kv_dtype = DType::kF32;
  EXPECT_EQ(run(shape, rows_of_every_kind(16), RowSet::kAll, 2e-6), "");
}

TEST(PlainGpu, ExtremeScores) {
  GpuShape shape;
  shape.heads.head_dim = 64;
  shape.io_dtype = shape.kv_dtype = DType::kF32;
  shape.magnitude = 3e5f;
  EXPECT_EQ(run(shape, {decode_row(300), prefill_row(70)}, RowSet::kAll, 1e-2), "");
}

TEST(PlainGpu, SaysWhatItDoesNotTake) {
  GpuAttentionProblem problem({}, {decode_row(5)});
  AttentionParams params = problem.params();
  params.io_dtype = DType::kI32;
  EXPECT_EQ(prepare_plain(params, RowSet::kAll).status().code(), StatusCode::kUnsupported);
  params = problem.params();
  params.heads.head_dim = 6000;
  EXPECT_EQ(prepare_plain(params, RowSet::kAll).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace headrace::attention
