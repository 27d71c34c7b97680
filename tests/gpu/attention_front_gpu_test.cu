// SPDX-License-Identifier: Apache-2.0
// Attention through its one door against fp64: batches of all kinds of rows whatever path takes
// them, the batches that other libraries test theirs with, replays of one captured graph.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/cuda/attention.h"
#include "tests/gpu/attention_problem.h"
#include "tests/support/random_steps.h"

namespace headrace::attention {
namespace {

using test::Random;
using test::TestRow;

// A prepared launch over a problem, with its workspace: NaN but for the queue.
class Attention {
 public:
  explicit Attention(GpuAttentionProblem& problem, int32_t max_query_len = 16,
                     bool has_prefill_rows = true, bool programmatic = false)
      : problem_(problem) {
    const metadata::SplitView split = metadata::split_view(problem.step());
    workspace_ = value_of(Buffer::allocate(
        Device::kCuda,
        static_cast<size_t>(attention_workspace_bytes(problem.params().heads, problem.step().limits,
                                                      split.shape, max_query_len))));
    cudaMemset(workspace_.data(), 0xff, workspace_.size_bytes());
    check_status(clear_attention_workspace(nullptr, workspace_.data()));
    cudaDeviceSynchronize();
    launch_ = value_of(prepare_attention(problem.params(), {.split = split,
                                                            .max_query_len = max_query_len,
                                                            .has_prefill_rows = has_prefill_rows,
                                                            .workspace = workspace_.data(),
                                                            .programmatic = programmatic,
                                                            .early_pages = programmatic}));
  }
  void run() { check_status(launch_attention(problem_.stream().handle(), launch_)); }
  std::string path() const { return to_string(launch_); }

 private:
  GpuAttentionProblem& problem_;
  Buffer workspace_;
  AttentionLaunch launch_;
};

std::string run(const GpuShape& shape, const std::vector<TestRow>& rows, double tolerance = 1e-2) {
  GpuAttentionProblem problem(shape, rows, {.num_workers = 33});
  Attention attention(problem);
  // Twice: the second launch finds the workspace as the first has left it.
  attention.run();
  problem.poison_outputs();
  attention.run();
  return problem.check(RowSet::kAll, tolerance);
}

std::vector<TestRow> mixed_rows(int32_t page_size) {
  return {{},
          prefill_row(130, 40),
          decode_row(2),
          verify_row(90, 4),
          prefill_row(1),
          decode_row(page_size + 1),
          {},
          decode_row(700),
          prefill_row(65),
          verify_row(64, 16),
          prefill_row(3, 500),
          decode_row(63),
          {}};
}

TEST(AttentionFrontGpu, RowsOfAllKindsByEveryPath) {
  struct Case {
    HeadShape heads;
    DType io_dtype;
    DType kv_dtype;
    int32_t page_size = 16;
    int32_t stride_padding = 0;
  };
  for (const Case& c :
       std::initializer_list<Case>{
           {{8, 2, 128}, DType::kBF16, DType::kBF16},         // Hopper's kernels
           {{16, 2, 256}, DType::kF16, DType::kF16, 64},      // the same
           {{8, 2, 64}, DType::kBF16, DType::kBF16, 1},       // pages that prefill cannot fetch
           {{6, 2, 128}, DType::kBF16, DType::kFP8E4M3},      // fp8
           {{8, 2, 128}, DType::kF16, DType::kF16, 16, 3},    // strides
           {{4, 2, 32}, DType::kF32, DType::kF32},            // a tiny fp32 model
           {{4, 2, 96}, DType::kBF16, DType::kBF16},          // head dims
           {{4, 1, 128}, DType::kBF16, DType::kF32, 16, 1}})  // element types
  {
    for (const bool with_options : {false, true}) {
      GpuShape shape;
      shape.heads = c.heads;
      shape.io_dtype = c.io_dtype;
      shape.kv_dtype = c.kv_dtype;
      shape.page_size = c.page_size;
      shape.stride_padding = c.stride_padding;
      shape.window = with_options ? 50 : 0;
      shape.soft_cap = with_options ? 5.0f : 0.0f;
      shape.sinks = with_options;
      EXPECT_EQ(run(shape, mixed_rows(c.page_size), c.io_dtype == DType::kF32 ? 2e-6 : 1e-2), "");
    }
  }
}

TEST(AttentionFrontGpu, PrintsWhatRuns) {
  const auto path = [](const GpuShape& shape, bool has_prefill_rows) {
    GpuAttentionProblem problem(shape, {decode_row(5)});
    return Attention(problem, 1, has_prefill_rows).path();
  };
  GpuShape shape;
  EXPECT_EQ(path(shape, false), "decode bf16, KV bf16, D 128, 8 queries a pass, tensor copies");
  EXPECT_EQ(path(shape, true),
            "decode bf16, KV bf16, D 128, 8 queries a pass, tensor copies; "
            "prefill bf16 d128, 128 queries x 176 keys, boxes of 16 tokens");
  shape.heads = {.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32};
  shape.io_dtype = shape.kv_dtype = DType::kF32;
  EXPECT_EQ(path(shape, true), "plain fp32, KV fp32, D 32, all rows");
  EXPECT_EQ(path(shape, false), "plain fp32, KV fp32, D 32, decode and verify rows");
}

// Sequences with so many tokens in all, of which the last are new; a query of one is a decode row.
std::vector<TestRow> rows_of(const std::vector<int32_t>& seq_lens,
                             const std::vector<int32_t>& query_lens) {
  std::vector<TestRow> rows;
  for (size_t i = 0; i < seq_lens.size(); ++i) {
    rows.push_back({.query_len = query_lens[i], .context_len = seq_lens[i] - query_lens[i]});
  }
  return rows;
}

// The causal batches that vLLM tests its attention backends with, at its tolerances.
TEST(AttentionFrontGpu, BatchesOfVllm) {
  const std::vector<std::vector<TestRow>> batches = {
      rows_of({32, 40}, {1, 1}),
      rows_of({32, 40}, {8, 8}),
      rows_of({32, 40, 48, 56}, {1, 1, 5, 5}),
      rows_of({128, 256, 512, 1024, 128, 256, 512, 1024}, {1, 1, 1, 1, 1, 1, 1, 1}),
      rows_of({256, 512, 1024, 2048}, {16, 16, 16, 16}),
      rows_of({512, 1024, 2048, 512, 1024, 2048}, {1, 1, 1, 7, 7, 7}),
      rows_of(std::vector<int32_t>(32, 2048), std::vector<int32_t>(32, 1)),
      rows_of(std::vector<int32_t>(8, 4096), std::vector<int32_t>(8, 32)),
      rows_of({1024, 2048, 4096, 1024, 2048, 4096}, {1, 1, 1, 32, 32, 32}),
      rows_of({1024}, {1}),
      rows_of({1024}, {64}),
      rows_of({32, 64, 128, 256}, {32, 64, 128, 256})};
  for (const HeadShape& heads : {HeadShape{32, 8, 128}, {16, 4, 128}, {8, 2, 128}}) {
    for (const int32_t window : {0, 1000}) {
      if (window > 0 && heads.num_q_heads != 8) continue;
      GpuShape shape;
      shape.heads = heads;
      shape.window = window;
      for (const auto& batch : batches) EXPECT_EQ(run(shape, batch), "") << to_string(shape);
    }
  }
}

// Batches that FlashInfer tests its prefill and decode wrappers with: the causal ones without rope.
// Its pages of 5 tokens are 8 here, which steps allow, and batches with most work have fewer rows,
// for fp64 takes long.
TEST(AttentionFrontGpu, BatchesOfFlashInfer) {
  for (const int32_t page_size : {1, 8, 16}) {
    for (const int32_t kv_len : {54, 97, 512, 2048}) {
      for (const int32_t query_len : {37, 17, 127, 577}) {
        if (query_len > kv_len) continue;
        GpuShape shape;
        shape.io_dtype = shape.kv_dtype = DType::kF16;
        shape.page_size = page_size;
        shape.heads = {.num_q_heads = page_size == 8 ? 4 : 8, .num_kv_heads = 4, .head_dim = 128};
        if (query_len == 17) shape.heads.head_dim = 256;
        const size_t batch = kv_len < 2048 ? 12 : 2;
        EXPECT_EQ(
            run(shape, std::vector<TestRow>(batch, prefill_row(query_len, kv_len - query_len))),
            "");
      }
    }
  }
  for (const int32_t page_size : {1, 8, 16}) {
    for (const int32_t kv_len : {54, 97, 512, 2048, 16384}) {
      for (const DType kv_dtype : {DType::kF16, DType::kFP8E4M3}) {
        GpuShape shape;
        shape.io_dtype = DType::kF16;
        shape.kv_dtype = kv_dtype;
        shape.page_size = page_size;
        shape.heads = {.num_q_heads = kv_len % 2 == 0 ? 32 : 4,
                       .num_kv_heads = 4,
                       .head_dim = kv_dtype == DType::kF16 ? 128 : 256};
        const size_t batch = kv_len > 2048 ? 3 : kv_len == 97 ? 128 : 17;
        EXPECT_EQ(run(shape, std::vector<TestRow>(batch, decode_row(kv_len))), "");
      }
    }
  }
}

// One captured graph; rows of all kinds, ever others, and empty ones before and between them.
void replay_with_other_rows(const GpuShape& shape, int replays, bool programmatic) {
  constexpr int32_t kRows = 20;
  constexpr int32_t kTokens = 500;
  const int32_t max_pages = shape.page_size == 1 ? 200 : 64;  // of a row
  Random random(17);
  GpuAttentionProblem problem(shape, std::vector<TestRow>(kRows, decode_row(2)),
                              {.max_rows = kRows,
                               .max_tokens = kTokens,
                               .max_pages_per_row = max_pages,
                               .num_workers = 30});
  Attention attention(problem, 5, true, programmatic);
  check_status(problem.stream().begin_capture());
  attention.run();
  const CudaGraph graph = value_of(problem.stream().end_capture());
  for (int replay = 0; replay < replays; ++replay) {
    std::vector<TestRow> rows(static_cast<size_t>(random.in(0, 5)));
    int32_t tokens = 0;
    for (int32_t r = random.in(0, kRows - 5); r > 0; --r) {
      TestRow row;
      const int32_t len = random.in(7, random.one_in(5) ? max_pages * shape.page_size : 150);
      switch (random.in(0, 5)) {
        case 0:
          break;
        case 1:
          row = verify_row(len, random.in(2, 5));
          break;
        case 2:
        case 3:
          row = prefill_row(random.in(1, len), 0);
          row.context_len = random.one_in(2) ? 0 : len - row.query_len;
          break;
        default:
          row = decode_row(len);
      }
      tokens += row.query_len;
      if (tokens > kTokens) break;
      rows.push_back(row);
    }
    problem.set_rows(rows);
    check_status(problem.stream().launch(graph));
    ASSERT_EQ(problem.check(RowSet::kAll), "") << "replay " << replay;
  }
}

TEST(AttentionFrontGpu, ThousandReplaysWithOtherRows) {
  GpuShape shape;
  shape.heads = {.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  replay_with_other_rows(shape, 1000, true);
}

TEST(AttentionFrontGpu, ReplaysOnEveryPath) {
  GpuShape shape;
  shape.heads = {.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  shape.page_size = 1;
  replay_with_other_rows(shape, 100, false);
  shape.kv_dtype = DType::kFP8E4M3;
  shape.page_size = 16;
  replay_with_other_rows(shape, 100, false);
  shape.stride_padding = 2;
  replay_with_other_rows(shape, 100, false);
  shape.io_dtype = shape.kv_dtype = DType::kF32;
  replay_with_other_rows(shape, 100, false);
}

TEST(AttentionFrontGpu, WithoutPrefillRows) {
  GpuAttentionProblem problem({}, {decode_row(70), prefill_row(9), {}, verify_row(60, 3)});
  Attention attention(problem, 3, false);
  attention.run();
  EXPECT_EQ(problem.check(RowSet::kDecode), "");
}

TEST(AttentionFrontGpu, RefusesWhatIsBroken) {
  GpuAttentionProblem problem({}, {decode_row(5)});
  const AttentionOptions options{.split = metadata::split_view(problem.step()),
                                 .workspace = &problem};
  const auto code = [&](const AttentionParams& params, const AttentionOptions& with) {
    return prepare_attention(params, with).status().code();
  };
  AttentionParams params = problem.params();
  EXPECT_EQ(code(params, options), StatusCode::kOk);
  params.heads.num_q_heads = 7;
  EXPECT_EQ(code(params, options), StatusCode::kInvalidArgument);
  params = problem.params();
  params.cache.page_size = 32;
  EXPECT_EQ(code(params, options), StatusCode::kInvalidArgument);
  params = problem.params();
  params.q = nullptr;
  EXPECT_EQ(code(params, options), StatusCode::kInvalidArgument);
  params = problem.params();
  params.io_dtype = DType::kI32;
  EXPECT_EQ(code(params, options), StatusCode::kUnsupported);
  params = problem.params();
  params.shared_prefix = &problem;
  EXPECT_EQ(code(params, options), StatusCode::kUnsupported);
  EXPECT_EQ(prepare_plain(params, RowSet::kAll).status().code(), StatusCode::kUnsupported);
  AttentionOptions broken = options;
  broken.workspace = nullptr;
  EXPECT_EQ(code(problem.params(), broken), StatusCode::kInvalidArgument);
  broken = options;
  broken.max_query_len = 17;
  EXPECT_EQ(code(problem.params(), broken), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headrace::attention
