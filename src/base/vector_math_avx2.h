// SPDX-License-Identifier: Apache-2.0
// exp, sigmoid, silu and tanh of eight floats, and masks for the last ones. For *_avx2.cc files
// only: everything is static, so that no copy compiled for AVX2 can stand in for code that must run
// without it.
//
// Every lane is computed alone: a result depends on its own argument and on nothing else.
#pragma once

#include <immintrin.h>

namespace headrace {
namespace {

// For masked loads and stores: the first `count` of eight lanes (all of them from 8 up).
inline __m256i first_lanes_avx2(long count) {
  const int clamped = count < 8 ? static_cast<int>(count) : 8;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(clamped), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Within 1.5 ulp, subnormal results and overflow to infinity included; NaN stays NaN.
//   x = n·ln 2 + r, |r| ≤ ln(2)/2;  e^r = 1 + r + r²·q(r), q of degree 4 by minimax (3e-9).
inline __m256 exp_avx2(__m256 x) {
  // Past these bounds the result is 0 or infinity. The argument comes second: min and max return
  // it when it is NaN.
  x = _mm256_min_ps(_mm256_set1_ps(89.0f), x);
  x = _mm256_max_ps(_mm256_set1_ps(-105.0f), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln 2 in two parts; n times the first is exact.
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 q = _mm256_set1_ps(0.00138145941914f);
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0.00836871691776f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0.0416683881267f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0.166665206314f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0.499999934475f));
  const __m256 tail = _mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r);
  const __m256 mantissa = _mm256_add_ps(tail, _mm256_set1_ps(1.0f));
  // 2^n as two factors, for n reaches from −151 to 128.
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(exponent, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(mantissa, _mm256_castsi256_ps(first)),
                       _mm256_castsi256_ps(second));
}

// 1 / (1 + e^−x)
inline __m256 sigmoid_avx2(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 negated = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(one, _mm256_add_ps(one, exp_avx2(negated)));
}

// x / (1 + e^−x)
inline __m256 silu_avx2(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 negated = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(x, _mm256_add_ps(one, exp_avx2(negated)));
}

// Below 0.625 an odd polynomial (minimax, 4e-9), else 1 − 2 / (e^2|x| + 1) with the sign of x.
inline __m256 tanh_avx2(__m256 x) {
  const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
  const __m256 magnitude = _mm256_xor_ps(x, sign);
  const __m256 z = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(-0.00571704190469f);
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(0.0206505842675f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-0.0537434970787f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(0.133314912744f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-0.333332839249f));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 power = exp_avx2(_mm256_add_ps(magnitude, magnitude));
  const __m256 large =
      _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(power, one)));
  const __m256 is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(0.625f), _CMP_LT_OQ);
  return _mm256_blendv_ps(_mm256_or_ps(large, sign), small, is_small);
}

}  // namespace
}  // namespace headrace
