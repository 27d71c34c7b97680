// SPDX-License-Identifier: Apache-2.0
// Drivers of the ops that treat each token alone: what follows the convolution, and the gated norm.
#include <cmath>
#include <cstring>

#include "gdn/cpu/parts.h"
#include "gdn/gates.h"

namespace headrace::gdn {
namespace {

// Tokens that make a range of work large enough to be worth handing to another thread.
constexpr int64_t kTokenGrain = 16;

}  // namespace

void post_conv(ThreadPool& pool, const CpuKernels& kernels, const PostConvParams& params) {
  const GdnShape& shape = params.shape;
  const auto* const conv = static_cast<const float*>(params.conv);
  const auto* const a = static_cast<const float*>(params.a);
  const auto* const b = static_cast<const float*>(params.b);
  auto* const q = static_cast<float*>(params.q);
  auto* const k = static_cast<float*>(params.k);
  auto* const v = static_cast<float*>(params.v);
  const float q_scale = 1.0f / std::sqrt(static_cast<float>(shape.k_dim));
  pool.parallel_for(params.step.counts->num_tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = conv + t * shape.conv_dim();
      for (int32_t h = 0; h < shape.num_k_heads; ++h) {
        kernels.silu_l2norm(x + h * shape.k_dim, shape.k_dim, q_scale,
                            q + t * params.q_stride.token + h * params.q_stride.head);
        kernels.silu_l2norm(x + shape.key_dim() + h * shape.k_dim, shape.k_dim, 1.0f,
                            k + t * params.k_stride.token + h * params.k_stride.head);
      }
      for (int32_t h = 0; h < shape.num_v_heads; ++h) {
        kernels.silu(x + 2 * shape.key_dim() + h * shape.v_dim, shape.v_dim,
                     v + t * params.v_stride.token + h * params.v_stride.head);
        const int64_t from = t * params.gate_stride + h;
        const int64_t to = t * shape.num_v_heads + h;
        const float g = log_decay(a[from], params.a_log[h], params.dt_bias[h]);
        params.gate[to] = encode_gate(g, params.gate_format);
        params.beta[to] = sigmoid(b[from]);
      }
    }
  });
}

void gated_norm(ThreadPool& pool, const CpuKernels& kernels, const GatedNormParams& params) {
  const GdnShape& shape = params.shape;
  const int64_t num_tokens = params.step.counts->num_tokens;
  auto* const out = static_cast<float*>(params.out);
  const auto* const z = static_cast<const float*>(params.z);
  pool.parallel_for(num_tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int32_t h = 0; h < shape.num_v_heads; ++h) {
        const int64_t at = int64_t{h} * shape.v_dim;
        kernels.gated_rms_norm(out + t * params.out_stride + at, z + t * params.z_stride + at,
                               params.weight, shape.v_dim, params.eps);
      }
    }
  });
  for (int64_t t = num_tokens; t < params.step.limits.max_tokens; ++t) {
    std::memset(out + t * params.out_stride, 0,
                sizeof(float) * static_cast<size_t>(shape.value_dim()));
  }
}

}  // namespace headrace::gdn
