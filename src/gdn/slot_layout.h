// SPDX-License-Identifier: Apache-2.0
// Where the parts of a slot lie, for one GDN layer. All offsets count words of 4 bytes and are
// 64-bit; every part starts on a 64-byte border of the slot. It knows nothing of rows or steps.
//
//   conv     [W − 1, conv_dim]       the last raw inputs of the convolution, the oldest first
//   state    [Hv, V, K]              S, of state_dtype
//   and, when max_window > 0, the pending verify window (how many of its tokens were accepted is
//   told by the row, not by the slot):
//   pending_conv  [max_window, conv_dim]   raw inputs of the convolution
//   pending_k     [max_window, Hk · K]     normalised keys
//   pending_v     [max_window, Hv · V]
//   pending_g     [max_window, Hv]         log decay, clamped; fp32
//   pending_beta  [max_window, Hv]         fp32
// The rest is of window_dtype.
#pragma once

#include <cstdint>

#include "gdn/gdn_params.h"
#include "metadata/host_device.h"

namespace headrace::gdn {

struct SlotLayout {
  int64_t conv = 0;
  int64_t state = 0;
  int64_t pending_conv = 0;
  int64_t pending_k = 0;
  int64_t pending_v = 0;
  int64_t pending_g = 0;
  int64_t pending_beta = 0;
  int64_t total = 0;  // words of the slot
};

inline SlotLayout slot_layout(const GdnShape& shape, int32_t max_window,
                              DType window_dtype = DType::kF32, DType state_dtype = DType::kF32) {
  constexpr int64_t kAlignBytes = 64;
  int64_t end = 0;
  const auto place = [&end](int64_t elements, DType dtype) {
    const int64_t begin = end;
    const int64_t bytes = elements * static_cast<int64_t>(dtype_size_bytes(dtype));
    end += (bytes + kAlignBytes - 1) / kAlignBytes * (kAlignBytes / 4);
    return begin;
  };
  const int64_t window = max_window;
  SlotLayout layout;
  layout.conv = place(int64_t{shape.conv_width - 1} * shape.conv_dim(), window_dtype);
  layout.state = place(int64_t{shape.value_dim()} * shape.k_dim, state_dtype);
  layout.pending_conv = place(window * shape.conv_dim(), window_dtype);
  layout.pending_k = place(window * shape.key_dim(), window_dtype);
  layout.pending_v = place(window * shape.value_dim(), window_dtype);
  layout.pending_g = place(window * shape.num_v_heads, DType::kF32);
  layout.pending_beta = place(window * shape.num_v_heads, DType::kF32);
  layout.total = end;
  return layout;
}
inline SlotLayout slot_layout(const GdnShape& shape, const SlotPool& pool) {
  return slot_layout(shape, pool.max_window, pool.window_dtype, pool.state_dtype);
}

// Words that one layer needs in each slot: the least slot_stride.
inline int64_t slot_words(const GdnShape& shape, int32_t max_window,
                          DType window_dtype = DType::kF32, DType state_dtype = DType::kF32) {
  return slot_layout(shape, max_window, window_dtype, state_dtype).total;
}

// First word of a slot.
HEADRACE_HOST_DEVICE inline float* slot_data(const SlotPool& pool, int32_t slot) {
  return pool.data + int64_t{slot} * pool.slot_stride;
}

// S of one value head inside the slot's state, [V, K]; in elements.
HEADRACE_HOST_DEVICE inline int64_t state_head_offset(const GdnShape& shape, int32_t v_head) {
  return int64_t{v_head} * shape.v_dim * shape.k_dim;
}

}  // namespace headrace::gdn
