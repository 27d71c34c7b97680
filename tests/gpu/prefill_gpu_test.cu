// SPDX-License-Identifier: Apache-2.0
// Prefill attention on the GPU against fp64: every pair of options, awkward lengths in batches that
// hold rows of other kinds too, replays of one captured graph.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/cuda/prefill.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/pairwise.h"
#include "tests/support/random_steps.h"

namespace headrace::attention {
namespace {

using test::Random;
using test::TestRow;

class Queue {
 public:
  Queue() : buffer_(value_of(Buffer::allocate_zeroed(Device::kCuda, sizeof(WorkQueue)))) {}
  WorkQueue* get() { return buffer_.as<WorkQueue>(); }

 private:
  Buffer buffer_;
};

std::string run(const GpuShape& shape, const std::vector<TestRow>& rows, double tolerance = 1e-2) {
  GpuAttentionProblem problem(shape, rows);
  Queue queue;
  const PrefillLaunch launch = value_of(prepare_prefill(problem.params(), queue.get()));
  check_status(launch_prefill(problem.stream().handle(), launch));
  return problem.check(RowSet::kPrefill, tolerance);
}

// Query lengths beside every edge of a block of 128 or 192, short and long contexts, other rows
// between.
std::vector<TestRow> awkward_rows(int32_t page_size) {
  std::vector<TestRow> rows = {{},
                               prefill_row(1),
                               decode_row(40),
                               prefill_row(15),
                               prefill_row(16, 1),
                               prefill_row(17, 700),
                               verify_row(90, 4),
                               prefill_row(64, 63),
                               {},
                               prefill_row(127),
                               prefill_row(128, 128),
                               prefill_row(129, 65),
                               prefill_row(193, 2),
                               prefill_row(page_size, page_size),
                               prefill_row(page_size + 1),
                               prefill_row(300, 33)};
  return rows;
}

// Axes: dtype, head dim, group, key heads, page size, layout, window, soft cap, sinks + lse.
GpuShape shape_of(const std::vector<int>& choice) {
  constexpr int32_t kGroups[] = {1, 2, 3, 5, 6, 7, 8, 16};
  constexpr int32_t kKvHeads[] = {1, 2, 3};
  constexpr int32_t kPages[] = {8, 16, 48, 64, 256, 528};
  constexpr int32_t kWindows[] = {0, 1, 17, 100, 200, 5000};
  GpuShape shape;
  shape.io_dtype = shape.kv_dtype = choice[0] == 0 ? DType::kBF16 : DType::kF16;
  shape.heads.head_dim = 64 << choice[1];
  shape.heads.num_kv_heads = kKvHeads[choice[3]];
  shape.heads.num_q_heads = kGroups[choice[2]] * shape.heads.num_kv_heads;
  shape.page_size = kPages[choice[4]];
  shape.is_hnd = choice[5] == 1;
  shape.stride_padding = choice[5] == 1 ? 64 : 0;
  shape.window = kWindows[choice[6]];
  shape.soft_cap = choice[7] == 1 ? 5.0f : 0.0f;
  shape.sinks = choice[8] == 1;
  shape.lse = choice[8] == 0;
  return shape;
}

TEST(PrefillGpu, EveryPairOfOptions) {
  for (const auto& choice : test::pairwise_choices({2, 3, 8, 3, 6, 2, 6, 2, 2})) {
    const GpuShape shape = shape_of(choice);
    EXPECT_EQ(run(shape, awkward_rows(shape.page_size)), "") << to_string(shape);
  }
}

TEST(PrefillGpu, LongContexts) {
  for (const int32_t head_dim : {64, 128, 256}) {
    GpuShape shape;
    shape.heads.head_dim = head_dim;
    EXPECT_EQ(run(shape, {prefill_row(200, 4096), prefill_row(1024), prefill_row(5, 20000)}), "");
    shape.window = 1000;
    EXPECT_EQ(run(shape, {prefill_row(200, 4096), prefill_row(1500)}), "");
  }
}

// More rows than a warp has lanes, of several classes of length: work is found across both.
TEST(PrefillGpu, ManyRows) {
  Random random(3);
  std::vector<TestRow> rows;
  for (int r = 0; r < 150; ++r) {
    rows.push_back(r % 5 == 2 ? decode_row(random.in(2, 300))
                              : prefill_row(random.in(1, random.one_in(9) ? 300 : 20),
                                            random.one_in(3) ? random.in(0, 900) : 0));
  }
  GpuShape shape;
  for (const int32_t head_dim : {64, 128}) {
    shape.heads = {.num_q_heads = 3, .num_kv_heads = 1, .head_dim = head_dim};
    EXPECT_EQ(run(shape, rows), "");
  }
}

// Past 2³¹ elements: pages far apart.
TEST(PrefillGpu, HugeCache) {
  GpuShape shape;
  shape.page_padding = int64_t{1} << 26;
  EXPECT_EQ(run(shape, {prefill_row(130, 200), prefill_row(250)}), "");
}

TEST(PrefillGpu, ExtremeScores) {
  GpuShape shape;
  shape.magnitude = 3e5f;
  EXPECT_EQ(run(shape, {prefill_row(70), prefill_row(3, 200)}, 2e-2), "");
}

TEST(PrefillGpu, NothingToDo) {
  GpuShape shape;
  EXPECT_EQ(run(shape, {decode_row(70), {}, verify_row(60, 3)}), "");
}

// One captured graph, ever other lengths, kinds and counts.
TEST(PrefillGpu, ReplaysWithOtherRows) {
  constexpr int32_t kRows = 24;
  Random random(31);
  GpuShape shape;
  GpuAttentionProblem problem(shape, std::vector<TestRow>(kRows, decode_row(2)),
                              {.max_rows = kRows, .max_tokens = 4096, .max_pages_per_row = 170});
  Queue queue;
  const PrefillLaunch launch = value_of(prepare_prefill(problem.params(), queue.get()));
  check_status(problem.stream().begin_capture());
  check_status(launch_prefill(problem.stream().handle(), launch));
  const CudaGraph graph = value_of(problem.stream().end_capture());
  for (int replay = 0; replay < 40; ++replay) {
    std::vector<TestRow> rows;
    int32_t tokens = 0;
    for (int32_t r = random.in(0, kRows); r > 0; --r) {
      TestRow row;
      if (random.one_in(4)) {
        row = decode_row(random.in(2, 500));
      } else if (!random.one_in(4)) {
        row = prefill_row(random.in(1, random.one_in(3) ? 700 : 90),
                          random.one_in(2) ? 0 : random.in(1, 1500));
      }
      tokens += row.query_len;
      if (tokens > 4096) break;
      rows.push_back(row);
    }
    problem.set_rows(rows);
    check_status(problem.stream().launch(graph));
    ASSERT_EQ(problem.check(RowSet::kPrefill), "") << "replay " << replay;
  }
}

TEST(PrefillGpu, SaysWhatItDoesNotTake) {
  GpuShape shape;
  shape.kv_dtype = DType::kFP8E4M3;
  GpuAttentionProblem problem(shape, {prefill_row(5)});
  Queue queue;
  EXPECT_EQ(prepare_prefill(problem.params(), queue.get()).status().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace headrace::attention
