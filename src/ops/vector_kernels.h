// SPDX-License-Identifier: Apache-2.0
// The element-wise and row-wise inner loops of the ops, once plain and once for AVX2. They know
// vectors only; which vectors of a step to treat is the ops' business. No pointer needs alignment.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"

namespace headrace::ops {

struct VectorKernels {
  // residual += delta (when not null); out = residual / rms(residual) · (weight + weight_offset),
  // rms = sqrt(mean of squares + eps). `out` may be `residual`.
  void (*add_rms_norm)(float* residual, const float* delta, const float* weight,
                       float weight_offset, float eps, float* out, int64_t n);
  // out = silu(gate) · up.
  void (*swiglu)(const float* gate, const float* up, float* out, int64_t n);
  // out *= sigmoid(gate).
  void (*sigmoid_gate)(const float* gate, float* out, int64_t n);
  // The lowest index of the largest value; NaN counts as −inf. n ≥ 1.
  int64_t (*argmax)(const float* values, int64_t n);
};

const VectorKernels& vector_kernels(Isa isa);
// Only on a processor that has AVX2 and FMA.
const VectorKernels& avx2_vector_kernels();

}  // namespace headrace::ops
