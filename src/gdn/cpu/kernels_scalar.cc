// SPDX-License-Identifier: Apache-2.0
// The inner loops in plain C++: they read like the equations, run anywhere, and are the oracle of
// the vectorised ones.
#include <cmath>

#include "gdn/cpu/kernels.h"
#include "gdn/gates.h"
#include "metadata/row.h"

namespace headrace::gdn {
namespace {

void conv(const float* const* inputs, int32_t num_tokens, int32_t width, const float* weight,
          int32_t channels, float* out, int64_t out_stride) {
  for (int32_t t = 0; t < num_tokens; ++t) {
    float* y = out + t * out_stride;
    for (int32_t c = 0; c < channels; ++c) {
      float sum = 0.0f;
      for (int32_t i = 0; i < width; ++i) sum += weight[i * channels + c] * inputs[t + i][c];
      y[c] = sum;
    }
  }
}

void silu_n(const float* x, int32_t n, float* y) {
  for (int32_t i = 0; i < n; ++i) y[i] = silu(x[i]);
}

void silu_l2norm(const float* x, int32_t n, float scale, float* y) {
  float sum = 0.0f;
  for (int32_t i = 0; i < n; ++i) {
    y[i] = silu(x[i]);
    sum += y[i] * y[i];
  }
  const float factor = scale / std::sqrt(sum + 1e-6f);
  for (int32_t i = 0; i < n; ++i) y[i] *= factor;
}

void gated_rms_norm(float* out, const float* z, const float* weight, int32_t n, float eps) {
  float sum = 0.0f;
  for (int32_t i = 0; i < n; ++i) sum += out[i] * out[i];
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
  for (int32_t i = 0; i < n; ++i) out[i] = weight[i] * (out[i] * factor) * silu(z[i]);
}

void delta_steps(float* state, int32_t rows, int32_t k_dim, const DeltaSteps& steps) {
  for (int32_t t = 0; t < steps.num_tokens; ++t) {
    const float* k = steps.k + t * steps.k_stride;
    const float* v = steps.v + t * steps.v_stride;
    const float alpha = steps.alpha[t];
    for (int32_t r = 0; r < rows; ++r) {
      float* s = state + int64_t{r} * k_dim;
      float dot = 0.0f;
      for (int32_t i = 0; i < k_dim; ++i) dot += s[i] * k[i];
      const float delta = steps.beta[t] * (v[r] - alpha * dot);
      for (int32_t i = 0; i < k_dim; ++i) s[i] = alpha * s[i] + delta * k[i];
    }
    if (steps.q == nullptr) continue;
    const float* q = steps.q + t * steps.q_stride;
    for (int32_t r = 0; r < rows; ++r) {
      const float* s = state + int64_t{r} * k_dim;
      float dot = 0.0f;
      for (int32_t i = 0; i < k_dim; ++i) dot += s[i] * q[i];
      steps.out[t * steps.out_stride + r] = dot;
    }
  }
}

void gemm(const SmallGemm& g) {
  for (int32_t i = 0; i < g.m; ++i) {
    for (int32_t j = 0; j < g.n; ++j) {
      float sum = 0.0f;
      for (int32_t p = 0; p < g.depth; ++p) {
        sum += g.a[i * g.a_row + p * g.a_depth] * g.b[p * g.b_stride + j];
      }
      float& c = g.c[i * g.c_stride + j];
      c = g.c_scale == 0.0f ? sum : sum + g.c_scale * c;
    }
  }
}

void decay_row(float sign, double sum, const double* sums, const float* dots, int32_t n,
               float* out) {
  for (int32_t j = 0; j < metadata::kChunkTokens; ++j) {
    out[j] = j < n ? sign * std::exp(static_cast<float>(sum - sums[j])) * dots[j] : 0.0f;
  }
}

}  // namespace

const CpuKernels& scalar_kernels() {
  static constexpr CpuKernels kKernels{
      .conv = conv,
      .silu = silu_n,
      .silu_l2norm = silu_l2norm,
      .gated_rms_norm = gated_rms_norm,
      .delta_steps = delta_steps,
      .gemm = gemm,
      .decay_row = decay_row,
  };
  return kKernels;
}

}  // namespace headrace::gdn
