// SPDX-License-Identifier: Apache-2.0
// The plain versions, as the equations read, and the choice between the sets.
#include "ops/vector_kernels.h"

#include <cmath>
#include <limits>

namespace headrace::ops {
namespace {

void add_rms_norm(float* residual, const float* delta, const float* weight, float weight_offset,
                  float eps, float* out, int64_t n) {
  double sum_of_squares = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    if (delta != nullptr) residual[i] += delta[i];
    sum_of_squares += static_cast<double>(residual[i]) * static_cast<double>(residual[i]);
  }
  const auto mean = static_cast<float>(sum_of_squares / static_cast<double>(n));
  const float inverse_rms = 1.0f / std::sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = residual[i] * inverse_rms * (weight[i] + weight_offset);
  }
}

void swiglu(const float* gate, const float* up, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void sigmoid_gate(const float* gate, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] *= 1.0f / (1.0f + std::exp(-gate[i]));
}

int64_t argmax(const float* values, int64_t n) {
  int64_t best = 0;
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    if (values[i] > max) {  // false for NaN
      max = values[i];
      best = i;
    }
  }
  return best;
}

constexpr VectorKernels kScalar{add_rms_norm, swiglu, sigmoid_gate, argmax};

}  // namespace

const VectorKernels& vector_kernels(Isa isa) {
  return isa == Isa::kAvx2 ? avx2_vector_kernels() : kScalar;
}

}  // namespace headrace::ops
