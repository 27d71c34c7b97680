// SPDX-License-Identifier: Apache-2.0
// Cuts a tile into register tiles and stores their sums.
#include "base/panel_product_avx2.h"
#include "base/vector_math_avx2.h"
#include "ops/cpu/matmul_tile.h"

namespace headrace::ops {
namespace {

constexpr int64_t kMaxTokens = 6;  // of a register tile

void store(const MatmulTile& tile, int64_t token, int64_t row, __m256 sum) {
  float* out = tile.out + token * tile.out_stride + row;
  const int64_t rows = tile.rows - row;
  if (rows >= 8) {
    if (tile.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(tile.bias + row));
    _mm256_storeu_ps(out, sum);
  } else if (rows > 0) {
    const __m256i mask = first_lanes_avx2(rows);
    if (tile.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(tile.bias + row, mask));
    _mm256_maskstore_ps(out, mask, sum);
  }
}

template <typename Load, int M, int P>
void register_tile(const MatmulTile& tile, int64_t token, int64_t panel) {
  const int64_t panel_bytes = tile.cols * kPanelRows * Load::kBytes;
  PanelLanes sums[M][P];
  panel_product<Load, M, P>(static_cast<const char*>(tile.panels) + panel * panel_bytes, tile.cols,
                            tile.x + token * tile.x_stride, tile.x_stride, sums);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      store(tile, token + m, (panel + p) * kPanelRows, sums[m][p].low);
      store(tile, token + m, (panel + p) * kPanelRows + 8, sums[m][p].high);
    }
  }
}

// M tokens, P panels at a time while they last.
template <typename Load, int M, int P>
void few_tokens(const MatmulTile& tile, int64_t num_panels) {
  int64_t panel = 0;
  for (; panel + P <= num_panels; panel += P) register_tile<Load, M, P>(tile, 0, panel);
  for (; panel < num_panels; ++panel) register_tile<Load, M, 1>(tile, 0, panel);
}

// Panel by panel, the tokens cut into register tiles of nearly equal size.
template <typename Load>
void many_tokens(const MatmulTile& tile, int64_t num_panels) {
  const int64_t num_tiles = (tile.num_tokens + kMaxTokens - 1) / kMaxTokens;
  const int64_t smaller = tile.num_tokens / num_tiles;
  const int64_t num_larger = tile.num_tokens % num_tiles;
  for (int64_t panel = 0; panel < num_panels; ++panel) {
    int64_t token = 0;
    for (int64_t i = 0; i < num_tiles; ++i) {
      const int64_t size = smaller + (i < num_larger ? 1 : 0);
      switch (size) {
        case 3:
          register_tile<Load, 3, 1>(tile, token, panel);
          break;
        case 4:
          register_tile<Load, 4, 1>(tile, token, panel);
          break;
        case 5:
          register_tile<Load, 5, 1>(tile, token, panel);
          break;
        default:
          register_tile<Load, 6, 1>(tile, token, panel);
          break;
      }
      token += size;
    }
  }
}

template <typename Load>
void multiply(const MatmulTile& tile) {
  const int64_t num_panels = (tile.rows + kPanelRows - 1) / kPanelRows;
  switch (tile.num_tokens) {
    case 0:
      return;
    case 1:
      return few_tokens<Load, 1, 4>(tile, num_panels);
    case 2:
      return few_tokens<Load, 2, 2>(tile, num_panels);
    case 3:
      return few_tokens<Load, 3, 2>(tile, num_panels);
    default:
      return many_tokens<Load>(tile, num_panels);
  }
}

}  // namespace

void matmul_tile_avx2(const MatmulTile& tile) {
  if (tile.dtype == DType::kBF16) return multiply<LoadPanelBF16>(tile);
  if (tile.dtype == DType::kF16) return multiply<LoadPanelF16>(tile);
  multiply<LoadPanelF32>(tile);
}

}  // namespace headrace::ops
