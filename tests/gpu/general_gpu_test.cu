// SPDX-License-Identifier: Apache-2.0
// The general attention path against fp64: every pair of options with rows of all kinds, strides
// and pages that the other kernels leave to it, replays of one captured graph.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/cuda/general.h"
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

std::string run(const GpuShape& shape, const std::vector<TestRow>& rows, RowSet set = RowSet::kAll,
                double tolerance = 1e-2) {
  GpuAttentionProblem problem(shape, rows);
  Queue queue;
  const GeneralLaunch launch = value_of(prepare_general(problem.params(), set, queue.get()));
  // Twice: the second launch finds the queue as the first has left it.
  check_status(launch_general(problem.stream().handle(), launch));
  problem.poison_outputs();
  check_status(launch_general(problem.stream().handle(), launch));
  return problem.check(set, tolerance);
}

// Lengths beside the edges of tiles, blocks and pages, rows of every kind in no order.
std::vector<TestRow> awkward_rows(int32_t page_size) {
  std::vector<TestRow> rows = {{},
                               prefill_row(1),
                               decode_row(2),
                               prefill_row(15),
                               prefill_row(17, 700),
                               verify_row(90, 4),
                               decode_row(63),
                               decode_row(64),
                               decode_row(65),
                               prefill_row(64, 63),
                               {},
                               prefill_row(65, 65),
                               prefill_row(127),
                               verify_row(33, 16),
                               prefill_row(129, 128),
                               decode_row(page_size + 1),
                               prefill_row(page_size, page_size),
                               prefill_row(page_size + 1),
                               decode_row(300)};
  if (page_size > 2) rows.push_back(decode_row(page_size - 1));
  return rows;
}

// Axes: dtypes, head dim, group, key heads, page size, layout + scales, strides, window, soft cap,
// sinks + lse, rows.
GpuShape shape_of(const std::vector<int>& choice) {
  constexpr DType kIo[] = {DType::kBF16, DType::kF16, DType::kBF16, DType::kF16};
  constexpr DType kKv[] = {DType::kBF16, DType::kF16, DType::kFP8E4M3, DType::kFP8E4M3};
  constexpr int32_t kGroups[] = {1, 2, 3, 5, 6, 7, 8, 16};
  constexpr int32_t kKvHeads[] = {1, 2, 3};
  constexpr int32_t kPages[] = {1, 8, 16, 48, 256, 1024};
  constexpr int32_t kPaddings[] = {0, 1, 2, 16};  // elements
  constexpr int32_t kWindows[] = {0, 1, 17, 100, 5000};
  GpuShape shape;
  shape.io_dtype = kIo[choice[0]];
  shape.kv_dtype = kKv[choice[0]];
  shape.heads.head_dim = 64 << choice[1];
  shape.heads.num_kv_heads = kKvHeads[choice[3]];
  shape.heads.num_q_heads = kGroups[choice[2]] * shape.heads.num_kv_heads;
  shape.page_size = kPages[choice[4]];
  shape.is_hnd = choice[5] == 1;
  shape.scale_per_head = choice[5] == 1;
  shape.stride_padding = kPaddings[choice[6]];
  shape.window = kWindows[choice[7]];
  shape.soft_cap = choice[8] == 1 ? 5.0f : 0.0f;
  shape.sinks = choice[9] == 1;
  shape.lse = choice[9] == 0;
  return shape;
}

TEST(GeneralGpu, EveryPairOfOptions) {
  for (const auto& choice : test::pairwise_choices({4, 3, 8, 3, 6, 2, 4, 5, 2, 2, 3})) {
    const GpuShape shape = shape_of(choice);
    const auto set = static_cast<RowSet>(choice[10]);
    EXPECT_EQ(run(shape, awkward_rows(shape.page_size), set), "")
        << to_string(shape) << " " << row_set_name(set);
  }
}

TEST(GeneralGpu, LongContexts) {
  for (const int32_t head_dim : {64, 128, 256}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kFP8E4M3}) {
      GpuShape shape;
      shape.heads.head_dim = head_dim;
      shape.kv_dtype = kv_dtype;
      EXPECT_EQ(run(shape, {prefill_row(200, 4096), prefill_row(1024), decode_row(20000)}), "");
      shape.window = 1000;
      EXPECT_EQ(run(shape, {prefill_row(200, 4096), prefill_row(1500), decode_row(9000)}), "");
    }
  }
}

// More rows than a warp has lanes, of several classes of length: work is found across both.
TEST(GeneralGpu, ManyRows) {
  Random random(3);
  std::vector<TestRow> rows;
  for (int r = 0; r < 150; ++r) {
    rows.push_back(r % 5 == 2   ? decode_row(random.in(2, 300))
                   : r % 5 == 4 ? verify_row(random.in(9, 100), random.in(2, 8))
                                : prefill_row(random.in(1, random.one_in(9) ? 300 : 20),
                                              random.one_in(3) ? random.in(0, 900) : 0));
  }
  for (const int32_t head_dim : {64, 128, 256}) {
    GpuShape shape;
    shape.heads = {.num_q_heads = 6, .num_kv_heads = 2, .head_dim = head_dim};
    EXPECT_EQ(run(shape, rows), "");
  }
}

// Past 2³¹ elements: pages far apart.
TEST(GeneralGpu, HugeCache) {
  GpuShape shape;
  shape.page_padding = int64_t{1} << 26;
  EXPECT_EQ(run(shape, {prefill_row(130, 200), decode_row(250)}), "");
  shape.stride_padding = 1;
  EXPECT_EQ(run(shape, {prefill_row(130, 200), decode_row(250)}), "");
}

TEST(GeneralGpu, ExtremeScores) {
  for (const DType kv_dtype : {DType::kBF16, DType::kFP8E4M3}) {
    GpuShape shape;
    shape.kv_dtype = kv_dtype;
    shape.magnitude = kv_dtype == DType::kBF16 ? 3e5f : 1e4f;
    EXPECT_EQ(
        run(shape, {prefill_row(70), prefill_row(3, 200), decode_row(90)}, RowSet::kAll, 2e-2), "");
  }
}

// What the Hopper path leaves: scales that are not positive.
TEST(GeneralGpu, AnyScale) {
  for (const float scale : {-0.1f, 0.0f}) {
    GpuAttentionProblem problem({}, {prefill_row(70), decode_row(90)});
    const_cast<AttentionParams&>(problem.params()).scale = scale;
    Queue queue;
    const GeneralLaunch launch =
        value_of(prepare_general(problem.params(), RowSet::kAll, queue.get()));
    check_status(launch_general(problem.stream().handle(), launch));
    EXPECT_EQ(problem.check(RowSet::kAll), "");
  }
}

TEST(GeneralGpu, NothingToDo) {
  EXPECT_EQ(run({}, {decode_row(70), {}, verify_row(60, 3)}, RowSet::kPrefill), "");
  EXPECT_EQ(run({}, {{}, prefill_row(5)}, RowSet::kDecode), "");
}

// One captured graph, ever other lengths, kinds and counts.
TEST(GeneralGpu, ReplaysWithOtherRows) {
  constexpr int32_t kRows = 24;
  Random random(31);
  GpuShape shape;
  shape.page_size = 8;
  GpuAttentionProblem problem(shape, std::vector<TestRow>(kRows, decode_row(2)),
                              {.max_rows = kRows, .max_tokens = 2048, .max_pages_per_row = 170});
  Queue queue;
  const GeneralLaunch launch =
      value_of(prepare_general(problem.params(), RowSet::kAll, queue.get()));
  check_status(problem.stream().begin_capture());
  check_status(launch_general(problem.stream().handle(), launch));
  const CudaGraph graph = value_of(problem.stream().end_capture());
  for (int replay = 0; replay < 100; ++replay) {
    std::vector<TestRow> rows;
    int32_t tokens = 0;
    for (int32_t r = random.in(0, kRows); r > 0; --r) {
      TestRow row;
      if (random.one_in(3)) {
        row = decode_row(random.in(2, 900));
      } else if (!random.one_in(4)) {
        row = prefill_row(random.in(1, random.one_in(3) ? 500 : 90),
                          random.one_in(2) ? 0 : random.in(1, 800));
      }
      tokens += row.query_len;
      if (tokens > 2048) break;
      rows.push_back(row);
    }
    problem.set_rows(rows);
    check_status(problem.stream().launch(graph));
    ASSERT_EQ(problem.check(RowSet::kAll), "") << "replay " << replay;
  }
}

TEST(GeneralGpu, SaysWhatItDoesNotTake) {
  GpuAttentionProblem problem({}, {prefill_row(5)});
  Queue queue;
  AttentionParams params = problem.params();
  params.heads.head_dim = 96;
  EXPECT_EQ(prepare_general(params, RowSet::kAll, queue.get()).status().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace headrace::attention
