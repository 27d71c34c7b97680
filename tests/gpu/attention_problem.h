// SPDX-License-Identifier: Apache-2.0
// What the GPU's attention tests share: a step with known queries, keys and values on the device,
// NaN everywhere else (unused pages, the ends of pages, strides, outputs), and the answer in fp64
// by a kernel that shares nothing with those under test.
//
//   GpuAttentionProblem problem(shape, {decode_row(130), prefill_row(70), {}}, options);
//   prepare_decode(problem.params(), …); launch_decode(…);
//   EXPECT_EQ(problem.check(RowSet::kDecode), "");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/attention_params.h"
#include "attention/cuda/row_set.h"
#include "metadata/arena.h"
#include "metadata/split.h"
#include "tensor/buffer.h"
#include "tensor/cuda/cuda_stream.h"
#include "tests/support/step_builder.h"

namespace headrace::attention {

struct GpuShape {
  HeadShape heads{.num_q_heads = 8, .num_kv_heads = 2, .head_dim = 128};
  DType io_dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  bool is_hnd = false;
  int32_t page_size = 16;
  int32_t stride_padding = 0;  // elements added to every stride of the cache, q and out
  int64_t page_padding = 0;    // elements added to the stride from page to page
  int32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  bool lse = true;
  bool scale_per_head = false;  // fp8 only: else one scale for all heads
  float magnitude = 1.0f;       // standard deviation of q
};
std::string to_string(const GpuShape& shape);

test::TestRow decode_row(int32_t seq_len);
test::TestRow verify_row(int32_t seq_len, int32_t query_len);
test::TestRow prefill_row(int32_t query_len, int32_t context_len = 0);

// Throw std::runtime_error with the status' message.
void check_status(const Status& status);
template <typename T>
T value_of(Result<T> result) {
  check_status(result.status());
  return std::move(result).value();
}

class GpuAttentionProblem {
 public:
  GpuAttentionProblem(const GpuShape& shape, const std::vector<test::TestRow>& rows,
                      test::TestStepOptions options = {});

  // Other rows in the same buffers, within the limits: as a replay of a captured graph finds them.
  void set_rows(const std::vector<test::TestRow>& rows);
  // NaN into out and lse.
  void poison_outputs();

  const AttentionParams& params() const { return params_; }
  const metadata::StepView& step() const { return arena_.view(); }
  CudaStream& stream() { return stream_; }
  // A split of another shape than the step's own; rebuilt by set_rows().
  metadata::SplitView make_split(const metadata::SplitShape& split);

  // Compares what the stream has computed into params().out and lse. Empty when all is well, else
  // where it is worst. ‖out − exact‖ ≤ tolerance · ‖exact‖ for each token and head, |out − exact| ≤
  // tolerance · (1 + |exact|) for each element, |lse − exact| ≤ tolerance · max(1, |exact|); tokens
  // of other rows must still be NaN.
  std::string check(RowSet rows, double tolerance = 1e-2);
  // The fp64 kernel's answer for the tokens of the step: out [T, Hq, D], lse [T, Hq].
  struct Exact {
    std::vector<double> out;
    std::vector<double> lse;
  };
  Exact exact();
  // Raw bytes of out, for tests of equality.
  std::vector<char> output_bytes();

 private:
  void upload();

  GpuShape shape_;
  test::TestStep host_;
  std::vector<test::TestRow> rows_;
  metadata::StepArena arena_;
  CudaStream stream_;
  Buffer cache_, q_, out_, lse_, sinks_, scales_, exact_, exact_lse_, split_;
  metadata::SplitShape split_shape_;
  AttentionParams params_;
};

}  // namespace headrace::attention
