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
  const float* x = nullptr;  // [T, x_stride], the first conv_dim columns
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [conv_dim, W], W contiguous, the newest input last
  SlotPool slots;
  float* out = nullptr;  // [T, conv_dim]
  metadata::StepView step;
};

// From the convolution's output and the gate columns to what the delta rule takes:
// q, k ← l2norm(silu(·)), q also times 1/√K; v ← silu(·); the gate; β ← sigmoid(b).
struct PostConvParams {
  GdnShape shape;
  const float* conv = nullptr;  // [T, conv_dim]
  const float* b = nullptr;     // [T, Hv], token stride gate_stride
  const float* a = nullptr;     // [T, Hv], token stride gate_stride
  int64_t gate_stride = 0;
  const float* a_log = nullptr;    // [Hv]
  const float* dt_bias = nullptr;  // [Hv]
  GateFormat gate_format = GateFormat::kLog;
  float* q = nullptr;     // [Hk, T, K]
  float* k = nullptr;     // [Hk, T, K]
  float* v = nullptr;     // [Hv, T, V]
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
  const float* q = nullptr;     // [Hk, T, K]
  const float* k = nullptr;     // [Hk, T, K]
  const float* v = nullptr;     // [Hv, T, V]
  const float* gate = nullptr;  // [T, Hv]
  GateFormat gate_format = GateFormat::kLog;
  const float* beta = nullptr;  // [T, Hv]
  SlotPool slots;
  float* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  float* workspace = nullptr;  // delta_rule_workspace_floats(shape, limits)
  metadata::StepView step;
};

int64_t delta_rule_workspace_floats(const GdnShape& shape, const metadata::Limits& limits);

// out ← weight ⊙ rmsnorm(out) ⊙ silu(z) per value head, in place. Padding tokens, up to
// limits.max_tokens, become zero.
struct GatedNormParams {
  GdnShape shape;
  const float* z = nullptr;  // [T, Hv · V]
  int64_t z_stride = 0;
  const float* weight = nullptr;  // [V]
  float eps = 1e-6f;
  float* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  metadata::StepView step;
};

}  // namespace headrace::gdn
