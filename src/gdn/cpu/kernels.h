// SPDX-License-Identifier: Apache-2.0
// The inner loops of the CPU ops as a table, so that one driver serves the scalar and the AVX2 path
// and tests can run both in one process. A kernel knows nothing of rows, slots or steps. Every
// output element is accumulated in an order that depends on the shape alone.
#pragma once

#include <cstdint>

namespace headrace::gdn {

inline constexpr int32_t kMaxKDim = 512;
inline constexpr int32_t kMaxConvWidth = 8;
// Rows of S (value dimensions) that one piece of delta-rule work owns.
inline constexpr int32_t kStateRows = 32;

// Tokens for delta_steps, in order. Strides count floats from token to token.
struct DeltaSteps {
  int32_t num_tokens = 0;
  const float* k = nullptr;  // [num_tokens, K]
  int64_t k_stride = 0;
  const float* v = nullptr;  // [num_tokens, rows]
  int64_t v_stride = 0;
  const float* alpha = nullptr;  // [num_tokens] dense; exp of the log decay
  const float* beta = nullptr;   // [num_tokens] dense
  const float* q = nullptr;      // [num_tokens, K], or null: no output wanted
  int64_t q_stride = 0;
  float* out = nullptr;  // [num_tokens, rows]
  int64_t out_stride = 0;
};

// c[i, j] = Σ_p a[i · a_row + p · a_depth] · b[p · b_stride + j] + c_scale · c[i, j] for i < m, j <
// n, p < depth. n is a multiple of 16. With c_scale 0, c is not read.
struct SmallGemm {
  int32_t m = 0;
  int32_t n = 0;
  int32_t depth = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_depth = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  float c_scale = 0.0f;
};

struct CpuKernels {
  // out[t, c] = Σ_i weight[i, c] · inputs[t + i][c] for num_tokens tokens; `inputs` points at
  // num_tokens + width − 1 rows. `weight` is [width, channels], dense.
  void (*conv)(const float* const* inputs, int32_t num_tokens, int32_t width, const float* weight,
               int32_t channels, float* out, int64_t out_stride);
  // y = silu(x)
  void (*silu)(const float* x, int32_t n, float* y);
  // y = s · rsqrt(Σ s² + 1e-6) · scale with s = silu(x)
  void (*silu_l2norm)(const float* x, int32_t n, float scale, float* y);
  // out = weight · rmsnorm(out) · silu(z)
  void (*gated_rms_norm)(float* out, const float* z, const float* weight, int32_t n, float eps);
  // The recurrence on `rows` rows of S, `state` [rows, k_dim] dense.
  void (*delta_steps)(float* state, int32_t rows, int32_t k_dim, const DeltaSteps& steps);
  void (*gemm)(const SmallGemm& gemm);
  // out[j] = sign · exp(sum − sums[j]) · dots[j] for j < n, and 0 for n ≤ j < kChunkTokens, the
  // length of all three arrays.
  void (*decay_row)(float sign, double sum, const double* sums, const float* dots, int32_t n,
                    float* out);
};

const CpuKernels& scalar_kernels();
// Its functions are to be called only if cpu_isa() == Isa::kAvx2.
const CpuKernels& avx2_kernels();
// What this machine uses.
const CpuKernels& cpu_kernels();

}  // namespace headrace::gdn
