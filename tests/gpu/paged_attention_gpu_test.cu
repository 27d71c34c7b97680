// SPDX-License-Identifier: Apache-2.0
// The public paged attention against fp64: both forms of a batch, replays of one captured plan and
// layer with other batches, rows without keys, broken data.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "headrace/paged_attention.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"
#include "tests/support/random_steps.h"

namespace headrace {
namespace {

using attention::check_status;
using attention::decode_row;
using attention::GpuAttentionProblem;
using attention::GpuShape;
using attention::prefill_row;
using attention::RowSet;
using attention::value_of;
using attention::verify_row;
using test::Random;
using test::TestRow;

constexpr int32_t kMaxRows = 24;
constexpr int32_t kMaxTokens = 200;
constexpr int32_t kMaxPages = 400;

std::vector<int32_t> download(const int32_t* from, size_t count) {
  std::vector<int32_t> values(count);
  check_status(
      cuda_status(cudaMemcpy(values.data(), from, count * sizeof(int32_t), cudaMemcpyDeviceToHost),
                  "cudaMemcpy"));
  return values;
}

// The arrays that an engine has on the device, as large as they may become.
class DeviceBatch {
 public:
  DeviceBatch()
      : memory_(value_of(Buffer::allocate_zeroed(
            Device::kCuda, sizeof(int32_t) * (3 * (kMaxRows + 1) + 2 * kMaxRows * kMaxPages +
                                              2 * kMaxRows + 1)))) {}

  // From the step of a problem, whose rows fill num_rows places; the rest is out of use.
  void set(const GpuAttentionProblem& problem, int32_t num_rows) {
    const metadata::StepView& step = problem.step();
    const int32_t stride = step.limits.max_pages_per_row;
    const auto table =
        download(step.page_table, static_cast<size_t>(step.limits.max_rows * stride));
    query_indptr = download(step.query_start_i32, static_cast<size_t>(num_rows) + 1);
    page_indptr = download(step.page_start, static_cast<size_t>(num_rows) + 1);
    last_page_len = download(step.last_page_len, static_cast<size_t>(num_rows));
    seq_lens = download(step.seq_len, static_cast<size_t>(num_rows));
    page_indices.clear();
    block_table.assign(static_cast<size_t>(kMaxRows * kMaxPages), -7);
    for (int32_t r = 0; r < num_rows; ++r) {
      for (int32_t i = 0; i < page_indptr[r + 1] - page_indptr[r]; ++i) {
        page_indices.push_back(table[r * stride + i]);
        block_table[static_cast<size_t>(r * kMaxPages + i)] = table[r * stride + i];
      }
    }
    in_use = num_rows;
    upload();
  }
  void upload() {
    int32_t* to = memory_.as<int32_t>();
    const auto put = [&](const std::vector<int32_t>& values, int32_t capacity) {
      int32_t* at = to;
      check_status(cuda_status(
          cudaMemcpy(at, values.data(), values.size() * sizeof(int32_t), cudaMemcpyHostToDevice),
          "cudaMemcpy"));
      to += capacity;
      return at;
    };
    lists.query_indptr = table.query_indptr = put(query_indptr, kMaxRows + 1);
    lists.page_indptr = put(page_indptr, kMaxRows + 1);
    lists.page_indices = put(page_indices, kMaxRows * kMaxPages);
    lists.last_page_len = put(last_page_len, kMaxRows);
    table.block_table = put(block_table, kMaxRows * kMaxPages);
    table.block_table_stride = kMaxPages;
    table.seq_lens = put(seq_lens, kMaxRows);
    lists.num_rows_in_use = table.num_rows_in_use = put({in_use}, 1);
    lists.num_rows = table.num_rows = kMaxRows;
    lists.num_page_indices = kMaxRows * kMaxPages;
    check_status(cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  }

  PagedBatch lists;
  PagedBatch table;
  std::vector<int32_t> query_indptr, page_indptr, page_indices, last_page_len, block_table,
      seq_lens;
  int32_t in_use = 0;

 private:
  Buffer memory_;
};

PagedAttentionOptions options_for(const GpuAttentionProblem& problem, int32_t max_query_len) {
  const attention::AttentionParams& params = problem.params();
  PagedAttentionOptions options;
  options.num_q_heads = params.heads.num_q_heads;
  options.num_kv_heads = params.heads.num_kv_heads;
  options.head_dim = params.heads.head_dim;
  options.io_dtype = params.io_dtype;
  options.kv_dtype = params.cache.dtype;
  options.page_size = params.cache.page_size;
  options.num_pages = params.cache.num_pages;
  options.max_rows = kMaxRows;
  options.max_tokens = kMaxTokens;
  options.max_pages_per_row = kMaxPages;
  options.max_decode_query_len = max_query_len;
  options.windows = {0, 50};
  return options;
}

PagedLayer layer_of(const GpuAttentionProblem& problem) {
  const attention::AttentionParams& params = problem.params();
  const attention::KvCache& cache = params.cache;
  PagedLayer layer;
  layer.q = params.q;
  layer.q_stride = params.q_stride;
  layer.out = params.out;
  layer.out_stride = params.out_stride;
  layer.lse = params.lse;
  layer.keys = cache.data;
  layer.values = static_cast<const char*>(cache.data) +
                 cache.value_offset * static_cast<int64_t>(dtype_size_bytes(cache.dtype));
  layer.page_stride = cache.page_stride;
  layer.token_stride = cache.token_stride;
  layer.head_stride = cache.head_stride;
  layer.key_scale = cache.key_scale;
  layer.value_scale = cache.value_scale;
  layer.scale_per_head = cache.scale_stride == 1;
  layer.scale = params.scale;
  layer.soft_cap = params.soft_cap;
  layer.sinks = params.sinks;
  layer.window = params.window;
  return layer;
}

std::vector<TestRow> random_rows(Random& random) {
  std::vector<TestRow> rows(static_cast<size_t>(random.in(0, kMaxRows)));
  int32_t tokens = 0;
  for (TestRow& row : rows) {
    const int32_t len = 2 + random.in(0, random.one_in(5) ? 4000 : 200);
    const int32_t query_len = random.one_in(4) ? random.in(1, std::min(len, 30)) : 1;
    if (random.one_in(6) || tokens + query_len > kMaxTokens) continue;  // empty
    tokens += query_len;
    row = query_len == 1   ? decode_row(len)
          : query_len <= 4 ? verify_row(len + query_len, query_len)
                           : prefill_row(query_len, len - query_len);
  }
  return rows;
}

test::TestStepOptions step_options() {
  return {.max_rows = kMaxRows, .max_tokens = kMaxTokens, .max_pages_per_row = kMaxPages};
}

TEST(PagedAttentionGpu, BothFormsAndReplaysWithOtherBatches) {
  for (const int32_t page_size : {16, 64}) {
    for (const int32_t window : {0, 50}) {
      Random random(static_cast<uint64_t>(page_size + window));
      GpuShape shape;
      shape.page_size = page_size;
      shape.window = window;
      shape.is_hnd = window != 0;
      GpuAttentionProblem problem(shape, std::vector<TestRow>(kMaxRows, decode_row(4000)),
                                  step_options());
      DeviceBatch batch;
      batch.set(problem, kMaxRows);
      PagedAttention attention = value_of(PagedAttention::create(options_for(problem, 4)));
      EXPECT_GT(attention.device_bytes(), 0);
      cudaStream_t stream = problem.stream().handle();
      std::vector<CudaGraph> graphs;
      for (const PagedBatch* form : {&batch.lists, &batch.table}) {
        check_status(problem.stream().begin_capture());
        check_status(attention.plan(*form, stream));
        check_status(attention.run(layer_of(problem), stream));
        graphs.push_back(value_of(problem.stream().end_capture()));
      }
      for (int replay = 0; replay < 60; ++replay) {
        const std::vector<TestRow> rows = random_rows(random);
        problem.set_rows(rows);
        batch.set(problem, static_cast<int32_t>(rows.size()));
        for (const CudaGraph& graph : graphs) {
          problem.poison_outputs();
          check_status(problem.stream().launch(graph));
          ASSERT_EQ(problem.check(RowSet::kAll), "")
              << "page " << page_size << " window " << window << " replay " << replay;
        }
      }
      const PagedAttentionErrors errors = value_of(attention.errors(stream));
      EXPECT_EQ(errors.broken_rows, 0);
      EXPECT_EQ(errors.broken_batches, 0);
    }
  }
}

// q and out of fewer tokens than the maximum: nothing is written behind them, and rows that pass
// them are broken.
TEST(PagedAttentionGpu, WritesNoMoreTokensThanTheBatchHas) {
  const std::vector<TestRow> rows = {decode_row(300), verify_row(40, 3), decode_row(7)};
  GpuAttentionProblem problem({}, rows, step_options());
  PagedAttention attention = value_of(PagedAttention::create(options_for(problem, 4)));
  DeviceBatch batch;
  batch.set(problem, 3);
  cudaStream_t stream = problem.stream().handle();
  const auto run = [&](int32_t num_tokens) {
    PagedBatch form = batch.lists;
    form.num_tokens = num_tokens;
    problem.poison_outputs();
    check_status(attention.plan(form, stream));
    check_status(attention.run(layer_of(problem), stream));
    return problem.output_bytes();
  };
  constexpr size_t kTokenBytes = 8 * 128 * 2;
  for (const int32_t num_tokens : {5, 8, 5}) {  // the third is remembered
    const std::vector<char> bytes = run(num_tokens);
    for (size_t i = 5 * kTokenBytes; i < bytes.size(); ++i) {
      const bool within = i < static_cast<size_t>(num_tokens) * kTokenBytes;
      ASSERT_EQ(bytes[i], within ? '\0' : '\xff') << num_tokens << " tokens, byte " << i;
    }
  }
  EXPECT_EQ(value_of(attention.errors(stream)).broken_batches, 0);
  run(4);
  EXPECT_EQ(value_of(attention.errors(stream)).broken_batches, 1);
  run(0);
  EXPECT_EQ(problem.check(RowSet::kAll), "");
}

// Pages that lie outside of the list are not looked up.
TEST(PagedAttentionGpu, IndptrPastTheIndicesIsBroken) {
  const std::vector<TestRow> rows = {decode_row(300), decode_row(40)};
  GpuAttentionProblem problem({}, rows, step_options());
  PagedAttention attention = value_of(PagedAttention::create(options_for(problem, 1)));
  DeviceBatch batch;
  batch.set(problem, 2);
  batch.page_indptr[1] = INT32_MAX - 9;
  batch.page_indptr[2] = INT32_MAX;
  batch.upload();
  cudaStream_t stream = problem.stream().handle();
  check_status(attention.plan(batch.lists, stream));
  check_status(attention.run(layer_of(problem), stream));
  EXPECT_EQ(value_of(attention.errors(stream)).broken_rows, 2);
}

float bf16(const std::vector<char>& bytes, size_t i) {
  uint16_t half;
  std::memcpy(&half, bytes.data() + 2 * i, 2);
  const uint32_t word = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

// Rows 1 and 3 lose their keys, or have a page that is none: their tokens are zeros, the others as
// they were.
TEST(PagedAttentionGpu, RowsWithoutKeysAndBrokenRowsAreZero) {
  GpuShape shape;
  const std::vector<TestRow> rows = {decode_row(300), decode_row(40), decode_row(1000),
                                     verify_row(90, 3), decode_row(17)};
  GpuAttentionProblem problem(shape, rows, step_options());
  PagedAttention attention = value_of(PagedAttention::create(options_for(problem, 4)));
  DeviceBatch batch;
  cudaStream_t stream = problem.stream().handle();
  const auto run = [&](const PagedBatch& form) {
    problem.poison_outputs();
    check_status(attention.plan(form, stream));
    check_status(attention.run(layer_of(problem), stream));
    return problem.output_bytes();
  };
  batch.set(problem, 5);
  const std::vector<char> sound = run(batch.table);
  EXPECT_EQ(problem.check(RowSet::kAll), "");
  const size_t width = 8 * 128;
  const std::vector<int> row_of_token = {0, 1, 2, 3, 3, 3, 4};
  for (const bool broken : {false, true}) {
    batch.set(problem, 5);
    for (const size_t r : {size_t{1}, size_t{3}}) {
      if (broken) {
        batch.block_table[r * kMaxPages] = problem.params().cache.num_pages;
      } else {
        batch.seq_lens[r] = 0;
      }
    }
    batch.upload();
    const std::vector<char> bytes = run(batch.table);
    for (size_t token = 0; token < row_of_token.size(); ++token) {
      const bool zero = row_of_token[token] == 1 || row_of_token[token] == 3;
      for (size_t i = 0; i < width; ++i) {
        const float expected = zero ? 0.0f : bf16(sound, token * width + i);
        ASSERT_NEAR(bf16(bytes, token * width + i), expected, 1e-2f) << token;
      }
    }
    const PagedAttentionErrors errors = value_of(attention.errors(stream));
    EXPECT_EQ(errors.broken_rows, broken ? 2 : 0);
  }
  // A query_indptr that falls leaves no rows: all tokens are padding.
  batch.set(problem, 5);
  batch.query_indptr[2] = 0;
  batch.upload();
  const std::vector<char> bytes = run(batch.lists);
  for (size_t i = 0; i < row_of_token.size() * width; ++i) ASSERT_EQ(bf16(bytes, i), 0.0f);
  EXPECT_EQ(value_of(attention.errors(stream)).broken_batches, 1);
}

TEST(PagedAttentionGpu, DecodeOnlyWithFp8AndSmallPages) {
  for (const int32_t page_size : {1, 256}) {
    GpuShape shape;
    shape.kv_dtype = DType::kFP8E4M3;
    shape.page_size = page_size;
    const std::vector<TestRow> rows = {decode_row(300), decode_row(2), decode_row(65)};
    GpuAttentionProblem problem(shape, rows, step_options());
    PagedAttentionOptions options = options_for(problem, 1);
    options.decode_only = true;
    options.rows_have_keys = true;
    options.programmatic = true;
    PagedAttention attention = value_of(PagedAttention::create(options));
    DeviceBatch batch;
    batch.set(problem, 3);
    cudaStream_t stream = problem.stream().handle();
    check_status(attention.plan(batch.lists, stream));
    for (int layer = 0; layer < 3; ++layer) {
      check_status(attention.run(layer_of(problem), stream));
    }
    EXPECT_EQ(problem.check(RowSet::kAll), "");
  }
}

TEST(PagedAttentionGpu, SaysWhatIsWrong) {
  GpuAttentionProblem problem({}, {decode_row(5)}, step_options());
  PagedAttentionOptions options = options_for(problem, 1);
  const auto code = [](const Status& status) { return status.code(); };
  PagedAttention attention = value_of(PagedAttention::create(options));
  EXPECT_EQ(code(attention.run(layer_of(problem), nullptr)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(attention.plan({}, nullptr)), StatusCode::kInvalidArgument);
  DeviceBatch batch;
  batch.set(problem, 1);
  PagedBatch too_many = batch.lists;
  too_many.num_rows = kMaxRows + 1;
  EXPECT_EQ(code(attention.plan(too_many, nullptr)), StatusCode::kInvalidArgument);
  too_many = batch.lists;
  too_many.num_tokens = kMaxTokens + 1;
  EXPECT_EQ(code(attention.plan(too_many, nullptr)), StatusCode::kInvalidArgument);
  PagedBatch endless = batch.lists;
  endless.num_page_indices = 0;
  EXPECT_EQ(code(attention.plan(endless, nullptr)), StatusCode::kInvalidArgument);
  check_status(attention.plan(batch.lists, nullptr));
  PagedLayer layer = layer_of(problem);
  layer.window = 7;
  EXPECT_EQ(code(attention.run(layer, nullptr)), StatusCode::kInvalidArgument);
  options.num_q_heads = 7;
  EXPECT_EQ(code(PagedAttention::create(options).status()), StatusCode::kInvalidArgument);
  options = options_for(problem, 17);
  EXPECT_EQ(code(PagedAttention::create(options).status()), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headrace
