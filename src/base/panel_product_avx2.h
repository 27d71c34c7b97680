// SPDX-License-Identifier: Apache-2.0
// The register tile that matrix products and attention scores share. For *_avx2.cc files only:
// everything is in an anonymous namespace (see vector_math_avx2.h).
//
// sums[m][p][i] = Σ_k x[m][k] · panel[p][k][i] for i = 0 … 15, one fused multiply-add a step of k,
// every sum in a vector lane of its own: its bits do not depend on M, P or its neighbours. Two
// units of four cycles latency need eight independent vectors, and sixteen registers hold at most
// twelve beside the operands: 4 ≤ M · P ≤ 6 runs at full speed.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace {
namespace {

// Sixteen lanes.
struct PanelLanes {
  __m256 low;
  __m256 high;
};

// How 16 stored elements become two vectors of fp32.
struct LoadPanelF32 {
  static constexpr int64_t kBytes = 4;
  static PanelLanes load(const char* elements) {
    const float* e = reinterpret_cast<const float*>(elements);
    return {_mm256_loadu_ps(e), _mm256_loadu_ps(e + 8)};
  }
};
// Lane i of 32 bits holds element i in its low half and element i + 8 in its high half.
struct LoadPanelBF16 {
  static constexpr int64_t kBytes = 2;
  static PanelLanes load(const char* elements) {
    const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements));
    const __m256i high = _mm256_and_si256(e, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(e, 16)), _mm256_castsi256_ps(high)};
  }
};
struct LoadPanelF16 {
  static constexpr int64_t kBytes = 2;
  static PanelLanes load(const char* elements) {
    const __m128i* e = reinterpret_cast<const __m128i*>(elements);
    return {_mm256_cvtph_ps(_mm_loadu_si128(e)), _mm256_cvtph_ps(_mm_loadu_si128(e + 1))};
  }
};

template <typename Load, int M, int P>
inline __attribute__((always_inline)) void panel_product(const void* panels,  // [P, depth, 16]
                                                         int64_t depth,
                                                         const float* x,  // [M, depth]
                                                         int64_t x_stride,
                                                         PanelLanes (&sums)[M][P]) {
  const char* elements = static_cast<const char*>(panels);
  const int64_t panel_bytes = depth * 16 * Load::kBytes;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sums[m][p] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  for (int64_t k = 0; k < depth; ++k) {
    PanelLanes e[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) e[p] = Load::load(elements + p * panel_bytes);
    elements += 16 * Load::kBytes;
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m256 value = _mm256_broadcast_ss(x + m * x_stride + k);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        sums[m][p].low = _mm256_fmadd_ps(value, e[p].low, sums[m][p].low);
        sums[m][p].high = _mm256_fmadd_ps(value, e[p].high, sums[m][p].high);
      }
    }
  }
}

}  // namespace
}  // namespace headrace
