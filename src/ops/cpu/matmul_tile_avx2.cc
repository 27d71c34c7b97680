// SPDX-License-Identifier: Apache-2.0
// out[m][16p + i] = Σ_k x[m][k] · panel[p][k][i], one fused multiply-add a step of k, each output
// in a vector lane of its own. A register tile is M tokens × P panels × 2 vectors of 8: at least
// eight independent sums, which is what two FMA units of four cycles latency need, and at most
// twelve.
#include "base/vector_math_avx2.h"
#include "ops/cpu/matmul_tile.h"

namespace headrace::ops {
namespace {

constexpr int64_t kMaxTokens = 6;  // of a register tile

struct Pair {
  __m256 low;   // features 0…7
  __m256 high;  // features 8…15
};

// How 16 weights become two vectors of fp32.
struct LoadF32 {
  static constexpr int64_t kBytes = 4;
  static Pair load(const char* weights) {
    const float* w = reinterpret_cast<const float*>(weights);
    return {_mm256_loadu_ps(w), _mm256_loadu_ps(w + 8)};
  }
};
struct LoadBF16 {
  static constexpr int64_t kBytes = 2;
  static Pair load(const char* weights) {
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
    const __m256i high = _mm256_and_si256(w, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(w, 16)), _mm256_castsi256_ps(high)};
  }
};
struct LoadF16 {
  static constexpr int64_t kBytes = 2;
  static Pair load(const char* weights) {
    const __m128i* w = reinterpret_cast<const __m128i*>(weights);
    return {_mm256_cvtph_ps(_mm_loadu_si128(w)), _mm256_cvtph_ps(_mm_loadu_si128(w + 1))};
  }
};

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
  const int64_t cols = tile.cols;
  const int64_t panel_bytes = cols * kPanelRows * Load::kBytes;
  const char* weights = static_cast<const char*>(tile.panels) + panel * panel_bytes;
  const float* x = tile.x + token * tile.x_stride;
  const int64_t x_stride = tile.x_stride;
  Pair sums[M][P];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sums[m][p] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  for (int64_t k = 0; k < cols; ++k) {
    Pair w[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) w[p] = Load::load(weights + p * panel_bytes);
    weights += kPanelRows * Load::kBytes;
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m256 value = _mm256_broadcast_ss(x + m * x_stride + k);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        sums[m][p].low = _mm256_fmadd_ps(value, w[p].low, sums[m][p].low);
        sums[m][p].high = _mm256_fmadd_ps(value, w[p].high, sums[m][p].high);
      }
    }
  }
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
  if (tile.dtype == DType::kBF16) return multiply<LoadBF16>(tile);
  if (tile.dtype == DType::kF16) return multiply<LoadF16>(tile);
  multiply<LoadF32>(tile);
}

}  // namespace headrace::ops
