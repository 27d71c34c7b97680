// SPDX-License-Identifier: Apache-2.0
// Where the parts of a slot lie, for one GDN layer. All offsets count floats and are 64-bit; every
// part starts on a 64-byte border of the slot. It knows nothing of rows or steps.
//
//   conv     [W − 1, conv_dim]       the last raw inputs of the convolution, the oldest first
//   state    [Hv, V, K]              S
//   and, when max_window > 0, the pending verify window (how many of its tokens were accepted is
//   told by the row, not by the slot):
//   pending_conv  [max_window, conv_dim]   raw inputs of the convolution
//   pending_k     [max_window, Hk · K]     normalised keys
//   pending_v     [max_window, Hv · V]
//   pending_g     [max_window, Hv]         log decay, clamped
//   pending_beta  [max_window, Hv]
#pragma once

#include <cstdint>

#include "gdn/gdn_params.h"

namespace headrace::gdn {

struct SlotLayout {
  int64_t conv = 0;
  int64_t state = 0;
  int64_t pending_conv = 0;
  int64_t pending_k = 0;
  int64_t pending_v = 0;
  int64_t pending_g = 0;
  int64_t pending_beta = 0;
  int64_t total = 0;  // floats of the slot
};

inline SlotLayout slot_layout(const GdnShape& shape, int32_t max_window) {
  constexpr int64_t kAlign = 16;  // floats in a cache line
  int64_t end = 0;
  const auto place = [&end](int64_t floats) {
    const int64_t begin = end;
    end += (floats + kAlign - 1) / kAlign * kAlign;
    return begin;
  };
  const int64_t window = max_window;
  SlotLayout layout;
  layout.conv = place(int64_t{shape.conv_width - 1} * shape.conv_dim());
  layout.state = place(int64_t{shape.value_dim()} * shape.k_dim);
  layout.pending_conv = place(window * shape.conv_dim());
  layout.pending_k = place(window * shape.key_dim());
  layout.pending_v = place(window * shape.value_dim());
  layout.pending_g = place(window * shape.num_v_heads);
  layout.pending_beta = place(window * shape.num_v_heads);
  layout.total = end;
  return layout;
}

// Floats that one layer needs in each slot: the least slot_stride.
inline int64_t slot_floats(const GdnShape& shape, int32_t max_window) {
  return slot_layout(shape, max_window).total;
}

// First float of a slot.
inline float* slot_data(const SlotPool& pool, int32_t slot) {
  return pool.data + int64_t{slot} * pool.slot_stride;
}

// S of one value head inside the slot's state, [V, K].
inline int64_t state_head_offset(const GdnShape& shape, int32_t v_head) {
  return int64_t{v_head} * shape.v_dim * shape.k_dim;
}

}  // namespace headrace::gdn
