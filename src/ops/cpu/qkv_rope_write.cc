// SPDX-License-Identifier: Apache-2.0
// From the packed projection to rotated queries and written pages. The parts (norm, rope, cache
// write) are functions of their own; here they are called head by head.
#include <algorithm>
#include <array>

#include "attention/attention.h"
#include "attention/kv_cache.h"
#include "base/check.h"
#include "base/cpu_features.h"
#include "ops/cpu/ops.h"
#include "ops/rope.h"
#include "ops/vector_kernels.h"

namespace headrace::ops::cpu {
namespace {

constexpr int32_t kMaxHeadDim = 512;
constexpr int64_t kTokenGrain = 16;

struct Rotation {
  std::array<float, kMaxHeadDim / 2> cos;
  std::array<float, kMaxHeadDim / 2> sin;
};

// out = rope(norm(x)); `out` must not overlap x.
void norm_and_rotate(const QkvRopeWriteParams& params, const Rotation& rotation,
                     const float* norm_weight, const float* x, float* out) {
  const int64_t head_dim = params.heads.head_dim;
  std::copy(x, x + head_dim, out);
  if (norm_weight != nullptr) {
    vector_kernels(cpu_isa()).add_rms_norm(out, nullptr, norm_weight, params.norm_weight_offset,
                                           params.norm_eps, out, head_dim);
  }
  rope_rotate(rotation.cos.data(), rotation.sin.data(), params.rope.rotary_dim, out);
}

void treat_token(const QkvRopeWriteParams& params, int64_t token) {
  const int64_t head_dim = params.heads.head_dim;
  const int64_t q_heads = params.heads.num_q_heads;
  const int64_t kv_heads = params.heads.num_kv_heads;
  const int64_t q_step = params.has_gate ? 2 * head_dim : head_dim;
  const float* projection =
      static_cast<const float*>(params.projection) + token * params.projection_stride;
  const float* k = projection + q_heads * q_step;
  const float* v = k + kv_heads * head_dim;

  Rotation rotation;
  rope_cos_sin(params.rope.inv_freq, params.rope.rotary_dim, params.rope.attention_factor,
               params.step.token_position[token], rotation.cos.data(), rotation.sin.data());
  for (int64_t head = 0; head < q_heads; ++head) {
    norm_and_rotate(params, rotation, params.q_norm_weight, projection + head * q_step,
                    static_cast<float*>(params.q_out) + (token * q_heads + head) * head_dim);
  }
  const int64_t slot = params.step.slot_mapping[token];
  if (slot < 0) return;
  std::array<float, kMaxHeadDim> rotated;
  for (int64_t head = 0; head < kv_heads; ++head) {
    norm_and_rotate(params, rotation, params.k_norm_weight, k + head * head_dim, rotated.data());
    const int64_t offset = attention::key_offset_of_slot(params.cache, slot, head);
    attention::store_vector(params.cache, offset, head_dim, rotated.data());
    attention::store_vector(params.cache, offset + params.cache.value_offset, head_dim,
                            v + head * head_dim);
  }
}

}  // namespace

void qkv_rope_write(Stream& stream, const QkvRopeWriteParams& params) {
  attention::check_heads(params.heads);
  attention::check_cache(params.cache, params.heads);
  HEADRACE_CHECK(params.io_dtype == DType::kF32);
  HEADRACE_CHECK(params.rope.rotary_dim >= 0 && params.rope.rotary_dim % 2 == 0 &&
                 params.rope.rotary_dim <= params.heads.head_dim);
  static_cast<CpuStream&>(stream).run([params](ThreadPool& pool) {
    pool.parallel_for(params.step.counts->num_tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) treat_token(params, token);
    });
  });
}

}  // namespace headrace::ops::cpu
