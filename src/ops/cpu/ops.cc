// SPDX-License-Identifier: Apache-2.0
// Ops that are a loop over tokens around a vector kernel, a copy or a matrix product. All counts
// are read when a call runs, not when it is submitted.
#include "ops/cpu/ops.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/cpu_features.h"
#include "ops/cpu/matmul.h"
#include "ops/sampling.h"
#include "ops/vector_kernels.h"
#include "tensor/convert.h"

namespace headrace::ops::cpu {
namespace {

// Tokens of one range of a cheap op: below this, waking a thread costs more than it saves.
constexpr int64_t kTokenGrain = 16;

// Submits body(token) for every token of the step.
template <typename Body>
void for_each_token(Stream& stream, const metadata::StepView& step, Body body) {
  static_cast<CpuStream&>(stream).run([step, body](ThreadPool& pool) {
    pool.parallel_for(step.counts->num_tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) body(token);
    });
  });
}

}  // namespace

Result<std::unique_ptr<PreparedWeight>> prepare_weight(const std::vector<WeightView>& parts,
                                                       DType dtype) {
  HEADRACE_ASSIGN_OR_RETURN(auto weight, PackedWeight::pack(parts, dtype));
  return std::unique_ptr<PreparedWeight>(std::move(weight));
}

void embedding(Stream& stream, const EmbeddingParams& params) {
  HEADRACE_CHECK(is_float_dtype(params.table.dtype),
                 std::string("no embedding table of ") + dtype_name(params.table.dtype));
  for_each_token(stream, params.step, [params](int64_t token) {
    const int64_t hidden = params.table.cols;
    const int64_t id = params.ids[token];
    float* out = params.out + token * hidden;
    if (id < 0 || id >= params.table.rows) {
      std::fill(out, out + hidden, 0.0f);
    } else {
      widen(params.table.data, params.table.dtype, id * hidden, hidden, out);
    }
  });
}

void add_rms_norm(Stream& stream, const AddRmsNormParams& params) {
  for_each_token(stream, params.step, [params](int64_t token) {
    const int64_t offset = token * params.hidden;
    vector_kernels(cpu_isa()).add_rms_norm(
        params.residual + offset, params.delta != nullptr ? params.delta + offset : nullptr,
        params.weight, params.weight_offset, params.eps, params.out + offset, params.hidden);
  });
}

void linear(Stream& stream, const LinearParams& params) {
  HEADRACE_CHECK(params.weight != nullptr && params.x_stride >= params.weight->cols() &&
                 params.out_stride >= params.weight->rows());
  static_cast<CpuStream&>(stream).run([params](ThreadPool& pool) {
    const metadata::Counts& counts = *params.step.counts;
    const int64_t num_tokens =
        params.count == TokenCount::kTokens ? counts.num_tokens : counts.num_logit_tokens;
    matmul(cpu_isa(), pool, static_cast<const PackedWeight&>(*params.weight), params.bias, params.x,
           params.x_stride, num_tokens, params.out, params.out_stride);
  });
}

void head_gate(Stream& stream, const HeadGateParams& params) {
  for_each_token(stream, params.step, [params](int64_t token) {
    const int64_t head_dim = params.heads.head_dim;
    const float* projection = params.projection + token * params.projection_stride;
    float* out = params.out + token * params.heads.num_q_heads * head_dim;
    for (int64_t head = 0; head < params.heads.num_q_heads; ++head) {
      vector_kernels(cpu_isa()).sigmoid_gate(projection + (2 * head + 1) * head_dim,
                                             out + head * head_dim, head_dim);
    }
  });
}

void swiglu(Stream& stream, const SwiGluParams& params) {
  for_each_token(stream, params.step, [params](int64_t token) {
    const int64_t n = params.intermediate;
    const float* gate = params.gate_up + token * 2 * n;
    vector_kernels(cpu_isa()).swiglu(gate, gate + n, params.out + token * n, n);
  });
}

void gather_logit_rows(Stream& stream, const GatherLogitRowsParams& params) {
  static_cast<CpuStream&>(stream).run([params](ThreadPool&) {
    for (int64_t i = 0; i < params.step.counts->num_logit_tokens; ++i) {
      const float* source = params.x + int64_t{params.step.logit_tokens[i]} * params.hidden;
      std::copy(source, source + params.hidden, params.out + i * params.hidden);
    }
  });
}

void sample(Stream& stream, const SampleParams& params) {
  static_cast<CpuStream&>(stream).run([params](ThreadPool& pool) {
    const metadata::StepView& step = params.step;
    pool.parallel_for(step.counts->num_logit_tokens, 1, [&](int64_t begin, int64_t end) {
      thread_local std::vector<int32_t> scratch;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = step.token_row[step.logit_tokens[i]];
        const auto draft = static_cast<int32_t>(i - step.logit_start[row]);
        params.token_ids[i] = sample_token(params.logits + i * params.vocab, params.vocab,
                                           params.rows[row], draft, scratch);
      }
    });
  });
}

}  // namespace headrace::ops::cpu
