// SPDX-License-Identifier: Apache-2.0
// The AVX2 inner loops by name, for the table that joins them. Contracts are in kernels.h.
#pragma once

#include "gdn/cpu/kernels.h"

namespace headrace::gdn::avx2 {

void conv(const float* const* inputs, int32_t num_tokens, int32_t width, const float* weight,
          int32_t channels, float* out, int64_t out_stride);
void silu(const float* x, int32_t n, float* y);
void silu_l2norm(const float* x, int32_t n, float scale, float* y);
void gated_rms_norm(float* out, const float* z, const float* weight, int32_t n, float eps);
void delta_steps(float* state, int32_t rows, int32_t k_dim, const DeltaSteps& steps);
void gemm(const SmallGemm& gemm);
void decay_row(float sign, double sum, const double* sums, const float* dots, int32_t n,
               float* out);

}  // namespace headrace::gdn::avx2
