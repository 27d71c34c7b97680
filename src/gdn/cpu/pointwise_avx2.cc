// SPDX-License-Identifier: Apache-2.0
// Convolution, activations and norms, eight channels at a time.
#include <immintrin.h>

#include "base/vector_math_avx2.h"
#include "gdn/cpu/kernels_avx2.h"

namespace headrace::gdn::avx2 {
namespace {

// A vector's worth of memory, or what is left of it: lanes past the end read zero and are not
// written.
struct Lanes {
  __m256i mask;
  bool full;

  explicit Lanes(int32_t left) : full(left >= 8) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), lane);
  }
  __m256 load(const float* x) const {
    return full ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mask);
  }
  void store(float* x, __m256 value) const {
    if (full) {
      _mm256_storeu_ps(x, value);
    } else {
      _mm256_maskstore_ps(x, mask, value);
    }
  }
};

float horizontal_sum(__m256 x) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
}

float reciprocal_sqrt(float x) { return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// The common width, with the window carried in registers.
void conv4(const float* const* inputs, int32_t num_tokens, const float* weight, int32_t channels,
           float* out, int64_t out_stride) {
  for (int32_t c = 0; c < channels; c += 8) {
    const Lanes lanes(channels - c);
    const __m256 w0 = lanes.load(weight + c);
    const __m256 w1 = lanes.load(weight + channels + c);
    const __m256 w2 = lanes.load(weight + 2 * channels + c);
    const __m256 w3 = lanes.load(weight + 3 * channels + c);
    __m256 x0 = lanes.load(inputs[0] + c);
    __m256 x1 = lanes.load(inputs[1] + c);
    __m256 x2 = lanes.load(inputs[2] + c);
    for (int32_t t = 0; t < num_tokens; ++t) {
      const __m256 x3 = lanes.load(inputs[t + 3] + c);
      __m256 sum = _mm256_mul_ps(w0, x0);
      sum = _mm256_fmadd_ps(w1, x1, sum);
      sum = _mm256_fmadd_ps(w2, x2, sum);
      sum = _mm256_fmadd_ps(w3, x3, sum);
      lanes.store(out + t * out_stride + c, sum);
      x0 = x1;
      x1 = x2;
      x2 = x3;
    }
  }
}

}  // namespace

void conv(const float* const* inputs, int32_t num_tokens, int32_t width, const float* weight,
          int32_t channels, float* out, int64_t out_stride) {
  if (width == 4) {
    conv4(inputs, num_tokens, weight, channels, out, out_stride);
    return;
  }
  for (int32_t t = 0; t < num_tokens; ++t) {
    for (int32_t c = 0; c < channels; c += 8) {
      const Lanes lanes(channels - c);
      __m256 sum = _mm256_setzero_ps();
      for (int32_t i = 0; i < width; ++i) {
        sum = _mm256_fmadd_ps(lanes.load(weight + i * channels + c), lanes.load(inputs[t + i] + c),
                              sum);
      }
      lanes.store(out + t * out_stride + c, sum);
    }
  }
}

void silu(const float* x, int32_t n, float* y) {
  for (int32_t i = 0; i < n; i += 8) {
    const Lanes lanes(n - i);
    lanes.store(y + i, silu_avx2(lanes.load(x + i)));
  }
}

void silu_l2norm(const float* x, int32_t n, float scale, float* y) {
  __m256 sum = _mm256_setzero_ps();
  for (int32_t i = 0; i < n; i += 8) {
    const Lanes lanes(n - i);
    const __m256 value = silu_avx2(lanes.load(x + i));
    sum = _mm256_fmadd_ps(value, value, sum);
    lanes.store(y + i, value);
  }
  const __m256 factor = _mm256_set1_ps(scale * reciprocal_sqrt(horizontal_sum(sum) + 1e-6f));
  for (int32_t i = 0; i < n; i += 8) {
    const Lanes lanes(n - i);
    lanes.store(y + i, _mm256_mul_ps(lanes.load(y + i), factor));
  }
}

void gated_rms_norm(float* out, const float* z, const float* weight, int32_t n, float eps) {
  __m256 sum = _mm256_setzero_ps();
  for (int32_t i = 0; i < n; i += 8) {
    const __m256 value = Lanes(n - i).load(out + i);
    sum = _mm256_fmadd_ps(value, value, sum);
  }
  const __m256 factor =
      _mm256_set1_ps(reciprocal_sqrt(horizontal_sum(sum) / static_cast<float>(n) + eps));
  for (int32_t i = 0; i < n; i += 8) {
    const Lanes lanes(n - i);
    const __m256 normed = _mm256_mul_ps(lanes.load(out + i), factor);
    const __m256 gate = silu_avx2(lanes.load(z + i));
    lanes.store(out + i, _mm256_mul_ps(_mm256_mul_ps(lanes.load(weight + i), normed), gate));
  }
}

}  // namespace headrace::gdn::avx2
