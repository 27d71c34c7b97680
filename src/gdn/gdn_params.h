// SPDX-License-Identifier: Apache-2.0
// Arguments of the Gated DeltaNet ops. docs/gdn.md has the equations.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"
#include "metadata/host_device.h"
#include "metadata/step.h"

namespace headrace::gdn {

// How a decay gate is handed from its producer to its consumer: g, g · log2(e), or exp(g).
enum class GateFormat { kLog, kLog2, kLinear };

struct GdnShape {
  int32_t num_k_heads = 0;  // Hk, local to this rank
  int32_t num_v_heads = 0;  // Hv; value head j reads key head j / (Hv / Hk)
  int32_t k_dim = 0;        // K
  int32_t v_dim = 0;        // V
  int32_t conv_width = 4;   // W; the window keeps the last W − 1 raw inputs

  HEADRACE_HOST_DEVICE int32_t key_dim() const { return num_k_heads * k_dim; }
  HEADRACE_HOST_DEVICE int32_t value_dim() const { return num_v_heads * v_dim; }
  HEADRACE_HOST_DEVICE int32_t conv_dim() const { return 2 * key_dim() + value_dim(); }  // q, k, v
  // Width of the packed projection [q | k | v | z | b | a].
  HEADRACE_HOST_DEVICE int32_t projection_dim() const {
    return conv_dim() + value_dim() + 2 * num_v_heads;
  }
};

// One layer's part of the slots: for every slot its convolution window, its recurrent state and,
// when max_window > 0, the pending verify window. slot_layout.h says where in a slot each lies.
// Sizes count words of 4 bytes, whatever the element types. The CPU takes fp32 throughout.
struct SlotPool {
  float* data = nullptr;
  int32_t num_slots = 0;             // null slot included
  int64_t slot_stride = 0;           // words from slot to slot, a multiple of 16
  int32_t max_window = 0;            // tokens a verify window may have (1 + drafts); 0 = no verify
  DType window_dtype = DType::kF32;  // of raw inputs, pending k and v: that of the activations
  DType state_dtype = DType::kF32;   // of S: fp32 or bf16. Gates and β are always fp32.
};

// Element d of head h of token t lies `t · token + h · head + d` elements in.
struct HeadStride {
  int64_t token = 0;
  int64_t head = 0;
};
// [H, T, dim] without gaps.
inline HeadStride head_major(int32_t dim, const metadata::Limits& limits) {
  return {.token = dim, .head = int64_t{limits.max_tokens} * dim};
}

// Everything between the two projections of a GDN layer, for rows of every kind:
// convolution → SiLU → l2norm, gates → delta rule → gated RMSNorm. State is read from
// step.initial_slot and written to step.final_slot; checkpoints go where step.checkpoints says.
// Padding tokens give zeros; slot 0 is never written.
struct GdnMixParams {
  GdnShape shape;
  DType dtype = DType::kF32;         // of projection, conv_weight and out. The CPU takes fp32.
  const void* projection = nullptr;  // [T, projection_stride], [q | k | v | z | b | a]
  int64_t projection_stride = 0;
  const void* conv_weight = nullptr;   // [conv_dim, W], W contiguous, the newest input last
  const float* a_log = nullptr;        // [Hv]
  const float* dt_bias = nullptr;      // [Hv]
  const float* norm_weight = nullptr;  // [V], plain (not 1 + w)
  float norm_eps = 1e-6f;
  SlotPool slots;
  void* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  float* workspace = nullptr;  // gdn_mix_workspace_floats(shape, limits)
  metadata::StepView step;
};

// Floats of scratch memory that gdn_mix needs, from maxima alone.
int64_t gdn_mix_workspace_floats(const GdnShape& shape, const metadata::Limits& limits);

}  // namespace headrace::gdn
