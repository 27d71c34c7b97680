// SPDX-License-Identifier: Apache-2.0
// The inner loops of the delta rule: the recurrence on a few rows of S at a time, and the small
// matrix products and decays of the chunked form.
#include <immintrin.h>

#include "base/vector_math_avx2.h"
#include "gdn/cpu/kernels_avx2.h"
#include "metadata/row.h"

namespace headrace::gdn::avx2 {
namespace {

// At -O2 the compiler leaves loops over a register tile rolled, and the tile in memory.
#define HEADRACE_UNROLL _Pragma("GCC unroll 8")

constexpr int kRowGroup = 4;

// Sums of the four vectors' lanes, one in each lane of the result.
__m128 horizontal_sums(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

// One token on kRows rows of S. A row's sums are made alike for every kRows: even and odd vectors
// apart, then the scalar tail.
template <int kRows>
void step(float* state, int32_t k_dim, const float* k, const float* v, float alpha, float beta,
          const float* q, float* out) {
  const int32_t whole = k_dim / 8 * 8;
  __m256 even[kRowGroup];
  __m256 odd[kRowGroup];
  HEADRACE_UNROLL
  for (int r = 0; r < kRowGroup; ++r) even[r] = odd[r] = _mm256_setzero_ps();
  int32_t i = 0;
  for (; i + 16 <= whole; i += 16) {
    const __m256 k0 = _mm256_loadu_ps(k + i);
    const __m256 k1 = _mm256_loadu_ps(k + i + 8);
    HEADRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float* s = state + r * int64_t{k_dim} + i;
      even[r] = _mm256_fmadd_ps(_mm256_loadu_ps(s), k0, even[r]);
      odd[r] = _mm256_fmadd_ps(_mm256_loadu_ps(s + 8), k1, odd[r]);
    }
  }
  if (i < whole) {
    const __m256 k0 = _mm256_loadu_ps(k + i);
    HEADRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm256_fmadd_ps(_mm256_loadu_ps(state + r * int64_t{k_dim} + i), k0, even[r]);
    }
  }
  HEADRACE_UNROLL
  for (int r = 0; r < kRowGroup; ++r) even[r] = _mm256_add_ps(even[r], odd[r]);
  alignas(16) float delta[kRowGroup];
  _mm_store_ps(delta, horizontal_sums(even[0], even[1], even[2], even[3]));
  HEADRACE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const float* s = state + r * int64_t{k_dim};
    for (int32_t j = whole; j < k_dim; ++j) delta[r] += s[j] * k[j];
    delta[r] = beta * (v[r] - alpha * delta[r]);
  }

  const __m256 decay = _mm256_set1_ps(alpha);
  __m256 update[kRows];
  HEADRACE_UNROLL
  for (int r = 0; r < kRows; ++r) update[r] = _mm256_set1_ps(delta[r]);
  __m256 sums[kRowGroup];
  HEADRACE_UNROLL
  for (int r = 0; r < kRowGroup; ++r) sums[r] = _mm256_setzero_ps();
  for (i = 0; i < whole; i += 8) {
    const __m256 k0 = _mm256_loadu_ps(k + i);
    const __m256 q0 = q != nullptr ? _mm256_loadu_ps(q + i) : _mm256_setzero_ps();
    HEADRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* s = state + r * int64_t{k_dim} + i;
      const __m256 value = _mm256_fmadd_ps(update[r], k0, _mm256_mul_ps(decay, _mm256_loadu_ps(s)));
      _mm256_storeu_ps(s, value);
      sums[r] = _mm256_fmadd_ps(value, q0, sums[r]);
    }
  }
  alignas(16) float result[kRowGroup];
  _mm_store_ps(result, horizontal_sums(sums[0], sums[1], sums[2], sums[3]));
  HEADRACE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* s = state + r * int64_t{k_dim};
    for (int32_t j = whole; j < k_dim; ++j) {
      s[j] = alpha * s[j] + delta[r] * k[j];
      if (q != nullptr) result[r] += s[j] * q[j];
    }
    if (q != nullptr) out[r] = result[r];
  }
}

template <int kRows>
void steps_of_rows(float* state, int32_t k_dim, int32_t row, const DeltaSteps& steps) {
  for (int32_t t = 0; t < steps.num_tokens; ++t) {
    const float* q = steps.q != nullptr ? steps.q + t * steps.q_stride : nullptr;
    float* out = q != nullptr ? steps.out + t * steps.out_stride + row : nullptr;
    step<kRows>(state + row * int64_t{k_dim}, k_dim, steps.k + t * steps.k_stride,
                steps.v + t * steps.v_stride + row, steps.alpha[t], steps.beta[t], q, out);
  }
}

// kRows × 16 elements of c in registers.
template <int kRows>
void gemm_tile(const SmallGemm& g, int32_t row, int32_t column) {
  __m256 sum[kRows][2];
  HEADRACE_UNROLL
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
  const float* a = g.a + row * g.a_row;
  const float* b = g.b + column;
  const int64_t a_row = g.a_row;
  const int64_t a_depth = g.a_depth;
  const int64_t b_stride = g.b_stride;
  const int32_t depth = g.depth;
  for (int32_t p = 0; p < depth; ++p) {
    const __m256 b0 = _mm256_loadu_ps(b);
    const __m256 b1 = _mm256_loadu_ps(b + 8);
    HEADRACE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m256 a0 = _mm256_broadcast_ss(a + i * a_row);
      sum[i][0] = _mm256_fmadd_ps(a0, b0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(a0, b1, sum[i][1]);
    }
    a += a_depth;
    b += b_stride;
  }
  const __m256 scale = _mm256_set1_ps(g.c_scale);
  HEADRACE_UNROLL
  for (int i = 0; i < kRows; ++i) {
    float* c = g.c + (row + i) * g.c_stride + column;
    if (g.c_scale != 0.0f) {
      sum[i][0] = _mm256_fmadd_ps(scale, _mm256_loadu_ps(c), sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(scale, _mm256_loadu_ps(c + 8), sum[i][1]);
    }
    _mm256_storeu_ps(c, sum[i][0]);
    _mm256_storeu_ps(c + 8, sum[i][1]);
  }
}

template <int kRows>
void gemm_rows(const SmallGemm& g, int32_t row) {
  for (int32_t column = 0; column < g.n; column += 16) gemm_tile<kRows>(g, row, column);
}

}  // namespace

void delta_steps(float* state, int32_t rows, int32_t k_dim, const DeltaSteps& steps) {
  int32_t row = 0;
  for (; row + kRowGroup <= rows; row += kRowGroup) {
    steps_of_rows<kRowGroup>(state, k_dim, row, steps);
  }
  for (; row < rows; ++row) steps_of_rows<1>(state, k_dim, row, steps);
}

void gemm(const SmallGemm& g) {
  int32_t row = 0;
  for (; row + 6 <= g.m; row += 6) gemm_rows<6>(g, row);
  switch (g.m - row) {
    case 5:
      return gemm_rows<5>(g, row);
    case 4:
      return gemm_rows<4>(g, row);
    case 3:
      return gemm_rows<3>(g, row);
    case 2:
      return gemm_rows<2>(g, row);
    case 1:
      return gemm_rows<1>(g, row);
    default:
      return;
  }
}

void decay_row(float sign, double sum, const double* sums, const float* dots, int32_t n,
               float* out) {
  const __m256d from = _mm256_set1_pd(sum);
  const __m256 factor = _mm256_set1_ps(sign);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (int32_t j = 0; j < metadata::kChunkTokens; j += 8) {
    if (j >= n) {
      _mm256_storeu_ps(out + j, _mm256_setzero_ps());
      continue;
    }
    const __m128 low = _mm256_cvtpd_ps(_mm256_sub_pd(from, _mm256_loadu_pd(sums + j)));
    const __m128 high = _mm256_cvtpd_ps(_mm256_sub_pd(from, _mm256_loadu_pd(sums + j + 4)));
    const __m256 decay = exp_avx2(_mm256_set_m128(high, low));
    const __m256 value = _mm256_mul_ps(_mm256_mul_ps(factor, decay), _mm256_loadu_ps(dots + j));
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n - j), lane);
    _mm256_storeu_ps(out + j, _mm256_and_ps(value, _mm256_castsi256_ps(mask)));
  }
}

}  // namespace headrace::gdn::avx2
