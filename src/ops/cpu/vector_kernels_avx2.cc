// SPDX-License-Identifier: Apache-2.0
// The AVX2 versions. A vector of n elements is walked in a way that depends on n alone.
#include "base/vector_math_avx2.h"
#include "ops/vector_kernels.h"

namespace headrace::ops {
namespace {

// Four partial sums of eight lanes each, added as a tree.
float sum_of_lanes(const __m256 sums[4]) {
  const __m256 all =
      _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

// residual += delta, and the sum of squares of the result.
float add_and_square(float* residual, const float* delta, int64_t n) {
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps()};
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes_avx2(n - i);
    __m256 value = _mm256_maskload_ps(residual + i, mask);
    if (delta != nullptr) {
      value = _mm256_add_ps(value, _mm256_maskload_ps(delta + i, mask));
      _mm256_maskstore_ps(residual + i, mask, value);
    }
    __m256& sum = sums[i / 8 % 4];
    sum = _mm256_fmadd_ps(value, value, sum);
  }
  return sum_of_lanes(sums);
}

void add_rms_norm(float* residual, const float* delta, const float* weight, float weight_offset,
                  float eps, float* out, int64_t n) {
  const float mean = add_and_square(residual, delta, n) / static_cast<float>(n);
  const __m256 inverse_rms =
      _mm256_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps))));
  const __m256 offset = _mm256_set1_ps(weight_offset);
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes_avx2(n - i);
    const __m256 value = _mm256_mul_ps(_mm256_maskload_ps(residual + i, mask), inverse_rms);
    const __m256 scale = _mm256_add_ps(_mm256_maskload_ps(weight + i, mask), offset);
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(value, scale));
  }
}

void swiglu(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes_avx2(n - i);
    const __m256 activated = silu_avx2(_mm256_maskload_ps(gate + i, mask));
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(activated, _mm256_maskload_ps(up + i, mask)));
  }
}

void sigmoid_gate(const float* gate, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes_avx2(n - i);
    const __m256 open = sigmoid_avx2(_mm256_maskload_ps(gate + i, mask));
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(_mm256_maskload_ps(out + i, mask), open));
  }
}

// The largest value first, then where it first stands.
int64_t argmax(const float* values, int64_t n) {
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  __m256 max = none;
  for (int64_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes_avx2(n - i);
    const __m256 value =
        _mm256_blendv_ps(none, _mm256_maskload_ps(values + i, mask), _mm256_castsi256_ps(mask));
    max = _mm256_max_ps(value, max);  // the second operand where value is NaN
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, max);
  float largest = lanes[0];
  for (int i = 1; i < 8; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  for (int64_t i = 0; i < n; ++i) {
    if (values[i] == largest) return i;
  }
  return 0;  // nothing but NaN
}

}  // namespace

const VectorKernels& avx2_vector_kernels() {
  static constexpr VectorKernels kKernels{add_rms_norm, swiglu, sigmoid_gate, argmax};
  return kKernels;
}

}  // namespace headrace::ops
