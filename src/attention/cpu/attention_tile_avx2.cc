// SPDX-License-Identifier: Apache-2.0
// Keys are transposed into panels of 16 so that a score is one sum over d in a lane of its own;
// outputs are sums over keys, a lane a dim. Both orders are fixed: what a query gets does not
// depend on the other queries of its block. A query never multiplies with a key it does not see,
// since 0 times a NaN is a NaN.
#include "attention/cpu/attention_tile.h"
#include "base/panel_product_avx2.h"
#include "base/vector_math_avx2.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -__builtin_inff();
constexpr int64_t kPanelKeys = 16;

int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

struct LoadF32 {
  static __m256 load(const void* data, int64_t offset) {
    return _mm256_loadu_ps(static_cast<const float*>(data) + offset);
  }
};
struct LoadBF16 {
  static __m256 load(const void* data, int64_t offset) {
    const uint16_t* e = static_cast<const uint16_t*>(data) + offset;
    const __m256i wide =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(e)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};
struct LoadF16 {
  static __m256 load(const void* data, int64_t offset) {
    const uint16_t* e = static_cast<const uint16_t*>(data) + offset;
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(e)));
  }
};

void transpose(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  __m256 u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// keys[key / 16][d][key % 16] for the groups of eight keys that hold one in [begin, end).
template <typename Load>
void gather_keys(const AttentionTile& tile) {
  for (int64_t first = tile.begin / 8 * 8; first < tile.end; first += 8) {
    float* panel = tile.keys + first / kPanelKeys * kPanelKeys * tile.head_dim + first % kPanelKeys;
    for (int64_t d = 0; d < tile.head_dim; d += 8) {
      __m256 rows[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        rows[i] = Load::load(tile.cache, tile.key_offsets[first + i] + d);
      }
      transpose(rows);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) _mm256_storeu_ps(panel + (d + i) * kPanelKeys, rows[i]);
    }
  }
}

// fp32 values are used where they lie; others are widened first.
template <typename Load>
void widen_values(const AttentionTile& tile, const float* (&rows)[kTileKeys]) {
  for (int64_t key = tile.begin; key < tile.end; ++key) {
    float* row = tile.values + key * tile.head_dim;
    const int64_t offset = tile.key_offsets[key] + tile.value_offset;
    for (int64_t d = 0; d < tile.head_dim; d += 8) {
      _mm256_storeu_ps(row + d, Load::load(tile.cache, offset + d));
    }
    rows[key] = row;
  }
}

template <int M, int P>
void score_panels(const AttentionTile& tile, int64_t pair, int64_t panel) {
  PanelLanes sums[M][P];
  panel_product<LoadPanelF32, M, P>(tile.keys + panel * kPanelKeys * tile.head_dim, tile.head_dim,
                                    tile.q + pair * tile.head_dim, tile.head_dim, sums);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      float* scores = tile.scores + (pair + m) * kTileKeys + (panel + p) * kPanelKeys;
      _mm256_storeu_ps(scores, sums[m][p].low);
      _mm256_storeu_ps(scores + 8, sums[m][p].high);
    }
  }
}

// M pairs against all panels, P at a time while they last.
template <int M, int P>
void score_pairs(const AttentionTile& tile, int64_t pair) {
  const int64_t end = (tile.end + kPanelKeys - 1) / kPanelKeys;
  int64_t panel = tile.begin / kPanelKeys;
  for (; panel + P <= end; panel += P) score_panels<M, P>(tile, pair, panel);
  for (; panel < end; ++panel) score_panels<M, 1>(tile, pair, panel);
}

void score_all(const AttentionTile& tile) {
  int64_t pair = 0;
  for (; pair + 6 <= tile.num_pairs; pair += 6) score_pairs<6, 1>(tile, pair);
  switch (tile.num_pairs - pair) {
    case 5:
      return score_pairs<5, 1>(tile, pair);
    case 4:
      return score_pairs<4, 1>(tile, pair);
    case 3:
      return score_pairs<3, 2>(tile, pair);
    case 2:
      return score_pairs<2, 2>(tile, pair);
    case 1:
      return score_pairs<1, 4>(tile, pair);
    default:
      return;
  }
}

float largest_lane(__m256 v) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
float sum_of_lanes(__m256 v) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

// Scores → weights e^(score − max) over lanes [begin, end), zero outside; brings sum and out to the
// new maximum.
void softmax(const AttentionTile& tile, int64_t pair, int64_t begin, int64_t end) {
  float* scores = tile.scores + pair * kTileKeys;
  PairState& state = tile.states[pair];
  const __m256 scale = _mm256_set1_ps(tile.scale);
  const __m256 none = _mm256_set1_ps(kNone);
  __m256 s[8];
  __m256 max = _mm256_set1_ps(state.max);
  for (int i = 0; i < 8; ++i) {
    s[i] = _mm256_mul_ps(_mm256_loadu_ps(scores + 8 * i), scale);
    if (tile.soft_cap > 0.0f) {
      const __m256 cap = _mm256_set1_ps(tile.soft_cap);
      s[i] = _mm256_mul_ps(cap, tanh_avx2(_mm256_div_ps(s[i], cap)));
    }
    const __m256i before_end = first_lanes_avx2(end - 8 * i);
    const __m256i before_begin = first_lanes_avx2(begin - 8 * i);
    const __m256i seen = _mm256_andnot_si256(before_begin, before_end);
    s[i] = _mm256_blendv_ps(none, s[i], _mm256_castsi256_ps(seen));
    max = _mm256_max_ps(s[i], max);
  }
  const float new_max = largest_lane(max);
  if (new_max == kNone) {  // nothing so far has any weight
    for (int i = 0; i < 8; ++i) _mm256_storeu_ps(scores + 8 * i, _mm256_setzero_ps());
    return;
  }
  const __m256 shift = _mm256_set1_ps(new_max);
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < 8; ++i) {
    const __m256 weight = exp_avx2(_mm256_sub_ps(s[i], shift));
    _mm256_storeu_ps(scores + 8 * i, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  if (new_max != state.max) {
    const __m256 correction = exp_avx2(_mm256_set1_ps(state.max - new_max));
    state.sum *= _mm256_cvtss_f32(correction);
    state.max = new_max;
    float* out = tile.out + pair * tile.head_dim;
    for (int64_t d = 0; d < tile.head_dim; d += 8) {
      _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(out + d), correction));
    }
  }
  state.sum += sum_of_lanes(sum);
}

// out[m][d …] += Σ_key weight[m][key] · value[key][d …] over keys [begin, end), C vectors of dims.
template <int M, int C>
void add_values(const AttentionTile& tile, const float* const* rows, int64_t pair, int64_t d,
                int64_t begin, int64_t end) {
  const float* weights = tile.scores + pair * kTileKeys;
  float* out = tile.out + pair * tile.head_dim + d;
  __m256 sums[M][C];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[m][c] = _mm256_loadu_ps(out + m * tile.head_dim + 8 * c);
  }
  for (int64_t key = begin; key < end; ++key) {
    __m256 value[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) value[c] = _mm256_loadu_ps(rows[key] + d + 8 * c);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m256 weight = _mm256_broadcast_ss(weights + m * kTileKeys + key);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sums[m][c] = _mm256_fmadd_ps(weight, value[c], sums[m][c]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) _mm256_storeu_ps(out + m * tile.head_dim + 8 * c, sums[m][c]);
  }
}

template <int M, int C>
void add_values_to_all_dims(const AttentionTile& tile, const float* const* rows, int64_t pair,
                            int64_t begin, int64_t end) {
  if (begin >= end) return;
  int64_t d = 0;
  for (; d + 8 * C <= tile.head_dim; d += 8 * C) {
    add_values<M, C>(tile, rows, pair, d, begin, end);
  }
  for (; d < tile.head_dim; d += 8) add_values<M, 1>(tile, rows, pair, d, begin, end);
}

// Lanes that a pair sees.
int64_t begin_of(const AttentionTile& tile, int64_t pair) {
  return larger(0, tile.first_seen + pair / tile.group);
}
int64_t end_of(const AttentionTile& tile, int64_t pair) {
  return smaller(kTileKeys, tile.end_seen + pair / tile.group);
}

// M pairs: the keys that all of them see together, the others pair by pair, each pair's in order.
template <int M, int C>
void mix_pairs(const AttentionTile& tile, const float* const* rows, int64_t pair) {
  const int64_t begin = begin_of(tile, pair + M - 1);
  const int64_t end = larger(begin, end_of(tile, pair));
  if constexpr (M > 1) {
    for (int64_t m = pair; m < pair + M; ++m) {
      add_values_to_all_dims<1, 8>(tile, rows, m, begin_of(tile, m),
                                   smaller(begin, end_of(tile, m)));
    }
  }
  add_values_to_all_dims<M, C>(tile, rows, pair, begin, end);
  if constexpr (M > 1) {
    for (int64_t m = pair; m < pair + M; ++m) {
      add_values_to_all_dims<1, 8>(tile, rows, m, end, end_of(tile, m));
    }
  }
}

void mix_all(const AttentionTile& tile, const float* const* rows) {
  int64_t pair = 0;
  for (; pair + 6 <= tile.num_pairs; pair += 6) mix_pairs<6, 2>(tile, rows, pair);
  switch (tile.num_pairs - pair) {
    case 5:
      return mix_pairs<5, 2>(tile, rows, pair);
    case 4:
      return mix_pairs<4, 2>(tile, rows, pair);
    case 3:
      return mix_pairs<3, 4>(tile, rows, pair);
    case 2:
      return mix_pairs<2, 4>(tile, rows, pair);
    case 1:
      return mix_pairs<1, 8>(tile, rows, pair);
    default:
      return;
  }
}

}  // namespace

void attention_tile_avx2(const AttentionTile& tile) {
  const float* rows[kTileKeys];
  if (tile.dtype == DType::kBF16) {
    gather_keys<LoadBF16>(tile);
    widen_values<LoadBF16>(tile, rows);
  } else if (tile.dtype == DType::kF16) {
    gather_keys<LoadF16>(tile);
    widen_values<LoadF16>(tile, rows);
  } else {
    gather_keys<LoadF32>(tile);
    const float* values = static_cast<const float*>(tile.cache) + tile.value_offset;
    for (int64_t key = tile.begin; key < tile.end; ++key)
      rows[key] = values + tile.key_offsets[key];
  }
  score_all(tile);
  for (int64_t pair = 0; pair < tile.num_pairs; ++pair) {
    softmax(tile, pair, begin_of(tile, pair), end_of(tile, pair));
  }
  mix_all(tile, rows);
}

}  // namespace headrace::attention
