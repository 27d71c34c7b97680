// SPDX-License-Identifier: Apache-2.0
// Arguments of the Gated DeltaNet ops. docs/gdn.md has the equations.
#pragma once

#include <cstdint>

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

  int32_t key_dim() const { return num_k_heads * k_dim; }
  int32_t value_dim() const { return num_v_heads * v_dim; }
  int32_t conv_dim() const { return 2 * key_dim() + value_dim(); }  // q, k, v
  // Width of the packed projection [q | k | v | z | b | a].
  int32_t projection_dim() const { return conv_dim() + value_dim() + 2 * num_v_heads; }
};

// One layer's part of the slots: for every slot its convolution window, its recurrent state and,
// when max_window > 0, the pending verify window. slot_layout.h says where in a slot each lies.
struct SlotPool {
  float* data = nullptr;
  int32_t num_slots = 0;    // null slot included
  int64_t slot_stride = 0;  // floats from slot to slot
  int32_t max_window = 0;   // tokens a verify window may have (1 + drafts); 0 = no verify
};

// Everything between the two projections of a GDN layer, for rows of every kind:
// convolution → SiLU → l2norm, gates → delta rule → gated RMSNorm. State is read from
// step.initial_slot and written to step.final_slot; checkpoints go where step.checkpoints says.
// Padding tokens give zeros; slot 0 is never written.
struct GdnMixParams {
  GdnShape shape;
  const float* projection = nullptr;  // [T, projection_stride], [q | k | v | z | b | a]
  int64_t projection_stride = 0;
  const float* conv_weight = nullptr;  // [conv_dim, W], W contiguous, the newest input last
  const float* a_log = nullptr;        // [Hv]
  const float* dt_bias = nullptr;      // [Hv]
  const float* norm_weight = nullptr;  // [V], plain (not 1 + w)
  float norm_eps = 1e-6f;
  SlotPool slots;
  float* out = nullptr;  // [T, Hv · V]
  int64_t out_stride = 0;
  float* workspace = nullptr;  // gdn_mix_workspace_floats(shape, limits)
  metadata::StepView step;
};

// Floats of scratch memory that gdn_mix needs, from maxima alone.
int64_t gdn_mix_workspace_floats(const GdnShape& shape, const metadata::Limits& limits);

}  // namespace headrace::gdn
