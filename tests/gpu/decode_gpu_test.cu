// SPDX-License-Identifier: Apache-2.0
// Decode and verify attention on the GPU against fp64: options in a covering matrix, awkward
// lengths, replays of one captured graph, equality of bits.
#include <gtest/gtest.h>

#include <vector>

#include "attention/cuda/decode.h"
#include "metadata/index.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/pairwise.h"
#include "tests/support/random_steps.h"

namespace headrace::attention {
namespace {

using metadata::SplitShape;
using test::Random;
using test::TestRow;

// A launch and the workspace that it needs, full of NaN before it.
class Decode {
 public:
  Decode(GpuAttentionProblem& problem, const metadata::SplitView& split, int32_t max_query_len,
         bool programmatic = false)
      : workspace_(value_of(Buffer::allocate(
            Device::kCuda,
            static_cast<size_t>(decode_workspace_bytes(
                problem.params().heads, problem.step().limits, split.shape, max_query_len))))),
        launch_(value_of(prepare_decode(problem.params(), {.split = split,
                                                           .max_query_len = max_query_len,
                                                           .workspace = workspace_.data(),
                                                           .programmatic = programmatic,
                                                           .early_pages = programmatic}))) {
    cudaMemset(workspace_.data(), 0xff, workspace_.size_bytes());
    cudaDeviceSynchronize();
  }
  const DecodeLaunch& launch() const { return launch_; }

 private:
  Buffer workspace_;
  DecodeLaunch launch_;
};

struct Case {
  GpuShape shape;
  int32_t max_query_len = 1;
  int32_t num_workers = 33;
  int32_t unit_tokens = 64;
  bool fixed = false;
  bool split_window = false;  // the split knows the window
};

std::string describe(const Case& c) {
  return to_string(c.shape) + " query_len " + std::to_string(c.max_query_len) + " workers " +
         std::to_string(c.num_workers) + " unit " + std::to_string(c.unit_tokens) +
         (c.fixed ? " fixed" : "") + (c.split_window ? " split by window" : "");
}

std::string run_case(const Case& c, const std::vector<TestRow>& rows, double tolerance = 1e-2) {
  GpuAttentionProblem problem(c.shape, rows,
                              {.num_workers = c.num_workers, .split_tokens = c.unit_tokens});
  metadata::SplitView split = metadata::split_view(problem.step());
  if (c.fixed || c.split_window) {
    split = problem.make_split(
        SplitShape{c.num_workers, c.unit_tokens, c.split_window ? c.shape.window : 0, c.fixed});
  }
  const Decode decode(problem, split, c.max_query_len);
  check_status(launch_decode(problem.stream().handle(), decode.launch()));
  return problem.check(RowSet::kDecode, tolerance);
}

// Lengths beside every edge, rows of every kind in no order.
std::vector<TestRow> awkward_rows(int32_t page_size, int32_t max_query_len) {
  std::vector<TestRow> rows = {{},
                               decode_row(2),
                               prefill_row(1),
                               decode_row(63),
                               decode_row(64),
                               decode_row(65),
                               {},
                               decode_row(page_size),
                               prefill_row(5, 30),
                               decode_row(page_size + 1),
                               decode_row(700)};
  if (page_size > 2) rows.push_back(decode_row(page_size - 1));
  if (max_query_len > 1) {
    rows.push_back(verify_row(130, 2));
    rows.push_back(verify_row(max_query_len + 1, max_query_len));
    rows.push_back(verify_row(300, max_query_len));
    rows.push_back({});
  }
  return rows;
}

// Axes: dtypes, head dim, group, key heads, page size, layout + scales, window, soft cap + split by
// window, sinks + padded strides, query length, fixed cut, workers + unit.
Case case_of(const std::vector<int>& choice) {
  constexpr DType kIo[] = {DType::kBF16, DType::kF16, DType::kBF16, DType::kF16};
  constexpr DType kKv[] = {DType::kBF16, DType::kF16, DType::kFP8E4M3, DType::kFP8E4M3};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
  constexpr int32_t kKvHeads[] = {1, 2, 3, 8};
  constexpr int32_t kPages[] = {1, 8, 16, 48, 64, 256, 1024};
  constexpr int32_t kWindows[] = {0, 1, 17, 100, 5000};
  constexpr int32_t kQueryLens[] = {1, 4, 16};
  constexpr int32_t kWorkers[] = {1, 7, 33, 132};
  Case c;
  GpuShape& shape = c.shape;
  shape.io_dtype = kIo[choice[0]];
  shape.kv_dtype = kKv[choice[0]];
  shape.heads.head_dim = 64 << choice[1];
  shape.heads.num_kv_heads = kKvHeads[choice[3]];
  shape.heads.num_q_heads = kGroups[choice[2]] * shape.heads.num_kv_heads;
  shape.page_size = kPages[choice[4]];
  shape.is_hnd = choice[5] == 1;
  shape.window = kWindows[choice[6]];
  shape.soft_cap = choice[7] == 1 ? 5.0f : 0.0f;
  shape.sinks = choice[8] == 1;
  shape.stride_padding = choice[8] == 1 ? 16 : 0;
  c.max_query_len = kQueryLens[choice[9]];
  c.fixed = choice[10] == 1;
  c.split_window = choice[7] == 1;
  shape.lse = choice[10] == 0;
  shape.scale_per_head = choice[5] == 0;
  c.num_workers = kWorkers[choice[11]];
  c.unit_tokens = c.fixed ? 128 : choice[11] == 1 ? 16 : 64;
  return c;
}

TEST(DecodeGpu, EveryPairOfOptions) {
  for (const auto& choice : test::pairwise_choices({4, 3, 9, 4, 7, 2, 5, 2, 2, 3, 2, 4})) {
    const Case c = case_of(choice);
    EXPECT_EQ(run_case(c, awkward_rows(c.shape.page_size, c.max_query_len)), "") << describe(c);
  }
}

TEST(DecodeGpu, LongRows) {
  for (const int32_t head_dim : {128, 256}) {
    Case c;
    c.shape.heads.head_dim = head_dim;
    EXPECT_EQ(run_case(c, {decode_row(32789)}), "") << describe(c);
    c.num_workers = 66;
    std::vector<TestRow> rows(128, decode_row(512));
    rows[77] = decode_row(131072);
    EXPECT_EQ(run_case(c, rows), "") << describe(c);
  }
}

// Batches of a kind that other libraries test decode attention with.
TEST(DecodeGpu, CustomaryBatches) {
  for (const int32_t page_size : {1, 8, 16}) {
    for (const int32_t batch : {12, 17}) {
      for (const int32_t len : {54, 97, 512, 2048}) {
        Case c;
        c.shape.page_size = page_size;
        c.shape.heads = {.num_q_heads = batch == 12 ? 4 : 32, .num_kv_heads = 4, .head_dim = 128};
        c.shape.is_hnd = len > 100;
        EXPECT_EQ(run_case(c, std::vector<TestRow>(static_cast<size_t>(batch), decode_row(len))),
                  "");
      }
    }
  }
}

// Past 2³¹ elements: pages far apart.
TEST(DecodeGpu, HugeCache) {
  for (const int32_t page_size : {8, 16}) {
    Case c;
    c.shape.page_size = page_size;
    c.shape.page_padding = int64_t{1} << 26;
    std::vector<TestRow> rows;
    for (int i = 0; i < 3; ++i) rows.push_back(decode_row(page_size * 14 + i));
    EXPECT_EQ(run_case(c, rows), "") << describe(c);
  }
}

// Scores of some 5·10⁵ in size: a finite stand-in for −inf would win over them.
TEST(DecodeGpu, ExtremeScores) {
  Case c;
  c.shape.magnitude = 3e5f;
  EXPECT_EQ(run_case(c, {decode_row(2), decode_row(64), decode_row(900)}, 2e-2), "");
  c.shape.window = 20;
  EXPECT_EQ(run_case(c, {decode_row(2), decode_row(64), decode_row(900)}, 2e-2), "");
}

std::vector<TestRow> random_rows(Random& random, int32_t num_rows, int32_t max_query_len,
                                 int32_t max_len, bool with_prefill) {
  std::vector<TestRow> rows;
  for (int32_t r = 0; r < num_rows; ++r) {
    const int32_t len = 17 + random.in(0, random.one_in(4) ? max_len - 17 : 200);
    switch (random.in(0, 5)) {
      case 0:
        rows.push_back({});
        break;
      case 1:
        rows.push_back(max_query_len > 1 ? verify_row(len, random.in(2, max_query_len))
                                         : decode_row(len));
        break;
      case 2:
        rows.push_back(with_prefill ? prefill_row(random.in(1, 4), random.in(0, 90)) : TestRow{});
        break;
      default:
        rows.push_back(decode_row(len));
    }
  }
  return rows;
}

// One captured graph, ever other lengths, kinds and counts; empty rows before and between long
// ones.
TEST(DecodeGpu, ReplaysWithOtherRows) {
  constexpr int32_t kRows = 40;
  for (const bool programmatic : {false, true}) {
    Random random(9);
    GpuShape shape;
    GpuAttentionProblem problem(
        shape, std::vector<TestRow>(kRows, decode_row(2)),
        {.max_rows = kRows, .max_tokens = kRows * 5, .max_pages_per_row = 300, .num_workers = 66});
    Decode decode(problem, metadata::split_view(problem.step()), 4, programmatic);
    check_status(problem.stream().begin_capture());
    check_status(launch_decode(problem.stream().handle(), decode.launch()));
    const CudaGraph graph = value_of(problem.stream().end_capture());
    for (int replay = 0; replay < 60; ++replay) {
      std::vector<TestRow> rows(static_cast<size_t>(random.in(0, 12)));  // empty rows first
      for (const TestRow& row : random_rows(random, random.in(0, 28), 4, 4000, true)) {
        rows.push_back(row);
      }
      int32_t pages = 0;
      for (const TestRow& row : rows) {
        pages += metadata::pages_for(row.context_len + row.query_len, shape.page_size);
      }
      if (pages > 4000) continue;
      problem.set_rows(rows);
      check_status(problem.stream().launch(graph));
      ASSERT_EQ(problem.check(RowSet::kDecode), "") << "replay " << replay;
    }
  }
}

// With the fixed cut a row's result has the same bits whatever shares the batch.
TEST(DecodeGpu, FixedCutIgnoresTheBatch) {
  GpuShape shape;
  shape.heads = {.num_q_heads = 4, .num_kv_heads = 1, .head_dim = 128};
  const SplitShape split{20, 256, 0, true};
  // The data of a row is known by its number, so the row under test is always the first.
  const TestRow row = decode_row(3001);
  std::vector<char> alone;
  for (const auto& others :
       {std::vector<TestRow>{}, {decode_row(9000)}, {{}, decode_row(5), verify_row(900, 3)}}) {
    std::vector<TestRow> rows{row};
    rows.insert(rows.end(), others.begin(), others.end());
    GpuAttentionProblem problem(shape, rows, {.num_workers = 20});
    const Decode decode(problem, problem.make_split(split), 4);
    check_status(launch_decode(problem.stream().handle(), decode.launch()));
    std::vector<char> bytes = problem.output_bytes();
    bytes.resize(4 * 128 * 2);
    if (alone.empty()) alone = bytes;
    EXPECT_EQ(bytes, alone);
    EXPECT_EQ(problem.check(RowSet::kDecode), "");
  }
}

TEST(DecodeGpu, SaysWhatItDoesNotTake) {
  GpuAttentionProblem problem({}, {decode_row(5)});
  const metadata::SplitView split = metadata::split_view(problem.step());
  DecodeOptions options{.split = split, .workspace = &options};
  AttentionParams params = problem.params();
  params.heads.head_dim = 96;
  EXPECT_EQ(prepare_decode(params, options).status().code(), StatusCode::kUnsupported);
  options.max_query_len = 17;
  EXPECT_EQ(prepare_decode(problem.params(), options).status().code(),
            StatusCode::kInvalidArgument);
  options.max_query_len = 1;
  options.split.shape.unit_tokens = 24;
  EXPECT_EQ(prepare_decode(problem.params(), options).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headrace::attention
