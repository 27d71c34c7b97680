// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul_tile.h"

#include <algorithm>
#include <array>

#include "base/float16.h"

namespace headrace::ops {
namespace {

template <DType dtype, typename T>
void multiply(const MatmulTile& tile) {
  for (int64_t first = 0; first < tile.rows; first += kPanelRows) {
    const T* panel = static_cast<const T*>(tile.panels) + first * tile.cols;
    const int64_t rows = std::min(kPanelRows, tile.rows - first);
    for (int64_t token = 0; token < tile.num_tokens; ++token) {
      const float* x = tile.x + token * tile.x_stride;
      std::array<float, kPanelRows> sums{};  // by position in the panel
      for (int64_t k = 0; k < tile.cols; ++k) {
        for (int64_t i = 0; i < kPanelRows; ++i) {
          sums[static_cast<size_t>(i)] += to_float(panel[k * kPanelRows + i]) * x[k];
        }
      }
      for (int64_t row = 0; row < rows; ++row) {
        tile.out[token * tile.out_stride + first + row] =
            sums[static_cast<size_t>(position_in_panel(dtype, row))] +
            (tile.bias != nullptr ? tile.bias[first + row] : 0.0f);
      }
    }
  }
}

}  // namespace

void matmul_tile_scalar(const MatmulTile& tile) {
  if (tile.dtype == DType::kBF16) return multiply<DType::kBF16, BF16>(tile);
  if (tile.dtype == DType::kF16) return multiply<DType::kF16, F16>(tile);
  multiply<DType::kF32, float>(tile);
}

}  // namespace headrace::ops
