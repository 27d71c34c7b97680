// SPDX-License-Identifier: Apache-2.0
// The unit of work of a matrix product: a few panels for some tokens. One kernel an instruction
// set.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"

namespace headrace::ops {

// Output features of a panel.
inline constexpr int64_t kPanelRows = 16;

// Where in a group of 16 weights the weight of feature `row` lies. bf16 pairs feature i with i + 8
// in one 32-bit lane, so that a shift and a mask widen all sixteen; the others lie in order.
inline int64_t position_in_panel(DType dtype, int64_t row) {
  return dtype == DType::kBF16 ? row % 8 * 2 + row / 8 : row;
}

struct MatmulTile {
  const void* panels = nullptr;  // [num_panels, cols, 16]
  DType dtype = DType::kF32;
  int64_t cols = 0;
  int64_t rows = 0;             // output features: all 16 of each panel, or fewer in the last one
  const float* bias = nullptr;  // [rows] or null
  const float* x = nullptr;     // [num_tokens, cols]
  int64_t x_stride = 0;
  int64_t num_tokens = 0;
  float* out = nullptr;  // [num_tokens, rows]
  int64_t out_stride = 0;
};

void matmul_tile_scalar(const MatmulTile& tile);
void matmul_tile_avx2(const MatmulTile& tile);

}  // namespace headrace::ops
