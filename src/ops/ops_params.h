// SPDX-License-Identifier: Apache-2.0
// Arguments of the ops that are neither attention nor GDN. T counts tokens; strides count elements
// from token to token. Each op treats the step's counts->num_tokens tokens (or num_logit_tokens
// where it says so) and leaves the rest of its output alone, unless it says otherwise.
#pragma once

#include <cstdint>
#include <memory>

#include "attention/attention_params.h"
#include "headrace/dtype.h"
#include "metadata/step.h"

namespace headrace::ops {

// A weight as it lies in the checkpoint: row-major [rows, cols].
struct WeightView {
  const void* data = nullptr;
  DType dtype = DType::kBF16;    // fp32, bf16, fp16
  int64_t rows = 0;              // output features
  int64_t cols = 0;              // input features
  const float* scale = nullptr;  // reserved for fp8: per tensor, row or block
  int64_t scale_block = 0;       // reserved
};

// A weight in the layout that a backend multiplies with.
class PreparedWeight {
 public:
  virtual ~PreparedWeight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  virtual int64_t size_bytes() const = 0;
};

// Which count of the step an op covers.
enum class TokenCount { kTokens, kLogitTokens };

// out[t] = table[ids[t]]. An id outside the table gives zeros.
struct EmbeddingParams {
  WeightView table;              // [vocab, hidden]
  const int32_t* ids = nullptr;  // [T]
  float* out = nullptr;          // [T, hidden]
  metadata::StepView step;
};

// residual += delta (when delta is not null); out = rmsnorm(residual) · (weight + weight_offset).
struct AddRmsNormParams {
  float* residual = nullptr;      // [T, hidden], read and, with delta, written
  const float* delta = nullptr;   // [T, hidden] or null
  const float* weight = nullptr;  // [hidden]
  float weight_offset = 0.0f;     // 1 for zero-centred weights
  float eps = 1e-6f;
  float* out = nullptr;  // [T, hidden]
  int32_t hidden = 0;
  metadata::StepView step;
};

// out[t] = weight · x[t] (+ bias).
struct LinearParams {
  const PreparedWeight* weight = nullptr;
  const float* bias = nullptr;  // [rows] or null
  const float* x = nullptr;     // [T, cols]
  int64_t x_stride = 0;
  float* out = nullptr;  // [T, rows]
  int64_t out_stride = 0;
  TokenCount count = TokenCount::kTokens;
  metadata::StepView step;
};

// Rotary embedding: inverse frequencies are made once at load (rope.h) and hold any scaling.
struct RopeTable {
  const float* inv_freq = nullptr;  // [rotary_dim / 2]
  int32_t rotary_dim = 0;         // leading dims of a head that rotate, halves paired (i, i + d/2)
  float attention_factor = 1.0f;  // multiplies cos and sin
};

// From the packed projection to rotated queries and written pages, in one op:
// q, k ← optional RMSNorm over D → rope; q → q_out; k, v → cache.
struct QkvRopeWriteParams {
  attention::HeadShape heads;
  DType io_dtype = DType::kF32;      // of projection and q_out: fp32; on CUDA bf16 and fp16 too
  const void* projection = nullptr;  // [T, projection_stride]
  int64_t projection_stride = 0;
  // With gate: q and gate interleaved per head, [Hq, 2, D] | k [Hkv, D] | v [Hkv, D];
  // without: q [Hq, D] | k [Hkv, D] | v [Hkv, D].
  bool has_gate = false;
  const float* q_norm_weight = nullptr;  // [D] or null
  const float* k_norm_weight = nullptr;  // [D] or null
  float norm_weight_offset = 0.0f;
  float norm_eps = 1e-6f;
  RopeTable rope;
  void* q_out = nullptr;  // [T, Hq, D]
  attention::KvCache cache;
  metadata::StepView step;
};

// out[t, h] *= sigmoid(gate[t, h]) with the gate as it lies in the packed projection.
struct HeadGateParams {
  attention::HeadShape heads;
  const float* projection = nullptr;  // [T, projection_stride], [Hq, 2, D] | …
  int64_t projection_stride = 0;
  float* out = nullptr;  // [T, Hq, D]
  metadata::StepView step;
};

// out[t] = silu(gate_up[t, :n]) · gate_up[t, n:].
struct SwiGluParams {
  const float* gate_up = nullptr;  // [T, 2n]
  float* out = nullptr;            // [T, n]
  int32_t intermediate = 0;        // n
  metadata::StepView step;
};

// out[l] = x[step.logit_tokens[l]].
struct GatherLogitRowsParams {
  const float* x = nullptr;  // [T, hidden]
  float* out = nullptr;      // [L, hidden]
  int32_t hidden = 0;
  metadata::StepView step;
};

// How one row samples. Plain data in device memory.
struct RowSampling {
  float temperature = 0.0f;  // 0 = greedy, ties to the lowest id
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0 = all
  uint32_t choice_index = 0;
  uint64_t seed = 0;
  int32_t output_position = 0;  // tokens generated before this one
};

// Draws one token for each logit token. For token j of a row the output position is
// row.output_position + j. Logits that are all NaN or −inf give kNoUsableToken, so that a broken
// model is an error and not a stream of token 0.
inline constexpr int32_t kNoUsableToken = -1;
struct SampleParams {
  const float* logits = nullptr;  // [L, vocab]
  int64_t vocab = 0;
  const RowSampling* rows = nullptr;  // [R]
  int32_t* token_ids = nullptr;       // [L]
  metadata::StepView step;
};

}  // namespace headrace::ops
