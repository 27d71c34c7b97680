// SPDX-License-Identifier: Apache-2.0
// Arguments of the ops that gdn_mix is made of on the CPU. R, T as in metadata::Limits; an op
// treats the step's counts->num_tokens tokens and leaves the rest of its output alone, unless it
// says otherwise.
#pragma once

#include <cstdint>

#include "gdn/gdn_params.h"
#include "metadata/step.h"

namespace headrace::gdn {

// y[t, c] = Σ_i weight[c, i] · u[t − W + 1 + i, c], a depthwise causal convolution without bias.
// Inputs before the row's first token come from the window in its initial slot, moved on by the
// accepted tokens of the pending verify window; without an initial state they are zero. The window
// after the row's last token (of a verify row: after the accepted prefix, with the raw inputs of
// the row as the new pending window) goes to the final slot, windows at checkpoints to theirs.
struct ConvParams {
  GdnShape shape;
  DType dtype = DType::kF32;  // of x, weight and out. The CPU takes fp32.
  const void* x = nullptr;    // [T, x_stride], the first conv_dim columns
  int64_t x_stride = 0;
  const void* weight = nullptr;  // [conv_dim, W], W contiguous, the newest input last
  SlotPool slots;
  void* out = nullptr;  // [T, conv_dim]
  metadata::StepView step;
};

// From the convolution's output and the gate columns to what the delta rule takes:
// q, k ← l2norm(silu(·)), q also times 1/√K; v ← silu(·); the gate; β ← sigmoid(b).
struct PostConvParams {
  GdnShape shape;
  DType dtype = DType::kF32;   // of conv, b, a, q, k and v. The CPU takes fp32.
  const void* conv = nullptr;  // [T, conv_dim]
  const void* b = nullptr;     // [T, Hv], token stride gate_stride
  const void* a = nullptr;     // [T, Hv], token stride gate_stride
  int64_t gate_stride = 0;
  const float* a_log = nullptr;    // [Hv]
  const float* dt_bias = nullptr;  // [Hv]
  GateFormat gate_format = GateFormat::kLog;
  void* q = nullptr;  // Hk heads of K
  void* k = nullptr;  // Hk heads of K
  void* v = nullptr;  // Hv heads of V
  HeadStride q_stride;
  HeadStride k_stride;
  HeadStride v_stride;
  float* gate = nullptr;  // [T, Hv]
  float* beta = nullptr;  // [T, Hv]
  metadata::StepView step;
};

// S ← αS; d = β(v − S k); S ← S + d kᵀ; o = S q for the tokens of each row in order, after the
// accepted prefix of the pending window was replayed. The state after the row's last token (of a
// verify row: after the accepted prefix, with the row's k, v, g, β as the new pending window) goes
// to the final slot, states at checkpoints to theirs.
struct DeltaRuleParams {
  GdnShape shape;
  DType dtype = DType::kF32;  // of q, k, v and out. The CPU takes fp32.
  const void* q = nullptr;    // Hk heads of K, normalised and scaled by 1/√K
  const void* k = nullptr;    // Hk heads of K, normalised
  const void* v = nullptr;    // Hv heads of V
  HeadStride q_stride;        // the CPU wants a token stride of K, and of V for v
  HeadStride k_stride;
  HeadStride v_stride;
  const float* gate = nullptr;  // [T, Hv]
  GateFormat gate_format = GateFormat::kLog;
  const float* beta = nullptr;  // [T, Hv]
  SlotPool slots;
  void* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  float* workspace = nullptr;  // delta_rule_workspace_floats(shape, limits)
  metadata::StepView step;
};

int64_t delta_rule_workspace_floats(const GdnShape& shape, const metadata::Limits& limits);

// out ← weight ⊙ rmsnorm(out) ⊙ silu(z) per value head, in place. Padding tokens, up to
// limits.max_tokens, become zero.
struct GatedNormParams {
  GdnShape shape;
  DType dtype = DType::kF32;  // of z and out. The CPU takes fp32.
  const void* z = nullptr;    // [T, Hv · V]
  int64_t z_stride = 0;
  const float* weight = nullptr;  // [V]
  float eps = 1e-6f;
  void* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  metadata::StepView step;
};

}  // namespace headrace::gdn
