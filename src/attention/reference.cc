// SPDX-License-Identifier: Apache-2.0
// Online softmax over tiles of kKeyTile absolute positions:
//   m' = max(m, max s);  l ← l·e^(m−m') + Σ e^(s−m');  o ← o·e^(m−m') + Σ e^(s−m') v.
#include "attention/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/attention.h"
#include "attention/kv_cache.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

float score(const AttentionParams& params, const float* q, const float* k) {
  float dot = 0.0f;
  for (int32_t d = 0; d < params.heads.head_dim; ++d) dot += q[d] * k[d];
  const float scaled = dot * params.scale;
  return params.soft_cap > 0.0f ? params.soft_cap * std::tanh(scaled / params.soft_cap) : scaled;
}

struct SoftmaxState {
  float max = kNone;
  float sum = 0.0f;
  std::array<float, 512> out{};  // not yet divided by sum
};

void visit_tile(const AttentionParams& params, const int32_t* pages, int64_t begin, int64_t end,
                int64_t kv_head, const float* q, SoftmaxState& state) {
  const int32_t head_dim = params.heads.head_dim;
  std::array<float, 512> vector;
  std::array<float, kKeyTile> scores;
  float max = state.max;
  for (int64_t position = begin; position < end; ++position) {
    load_vector(params.cache, key_offset_of_position(params.cache, pages, position, kv_head),
                head_dim, vector.data());
    float& s = scores[static_cast<size_t>(position - begin)];
    s = score(params, q, vector.data());
    max = std::max(max, s);
  }
  if (max == kNone) return;  // nothing seen so far has any weight

  const float correction = std::exp(state.max - max);
  state.sum *= correction;
  for (int32_t d = 0; d < head_dim; ++d) state.out[static_cast<size_t>(d)] *= correction;
  state.max = max;
  for (int64_t position = begin; position < end; ++position) {
    const float weight = std::exp(scores[static_cast<size_t>(position - begin)] - max);
    const int64_t key = key_offset_of_position(params.cache, pages, position, kv_head);
    load_vector(params.cache, key + params.cache.value_offset, head_dim, vector.data());
    state.sum += weight;
    for (int32_t d = 0; d < head_dim; ++d) {
      state.out[static_cast<size_t>(d)] += weight * vector[static_cast<size_t>(d)];
    }
  }
}

void attend(const AttentionParams& params, int64_t token, int64_t head) {
  const metadata::StepView& step = params.step;
  const int64_t head_dim = params.heads.head_dim;
  float* out = static_cast<float*>(params.out) + token * params.out_stride + head * head_dim;
  float* lse = params.lse ? params.lse + token * params.heads.num_q_heads + head : nullptr;

  SoftmaxState state;
  if (token < step.counts->num_tokens) {
    const float* q =
        static_cast<const float*>(params.q) + token * params.q_stride + head * head_dim;
    const int64_t row = step.token_row[token];
    const int32_t* pages = step.page_table + row * step.limits.max_pages_per_row;
    const int64_t kv_head = head / (params.heads.num_q_heads / params.heads.num_kv_heads);
    const int64_t end = int64_t{step.token_position[token]} + 1;
    const int64_t begin = params.window > 0 ? std::max<int64_t>(0, end - params.window) : 0;
    if (params.sinks != nullptr && params.sinks[head] > kNone) {
      state.max = params.sinks[head];
      state.sum = 1.0f;
    }
    for (int64_t tile = begin / kKeyTile * kKeyTile; tile < end; tile += kKeyTile) {
      visit_tile(params, pages, std::max(begin, tile), std::min(end, tile + kKeyTile), kv_head, q,
                 state);
    }
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    out[d] = state.sum > 0.0f ? state.out[static_cast<size_t>(d)] / state.sum : 0.0f;
  }
  if (lse != nullptr) *lse = state.sum > 0.0f ? state.max + std::log(state.sum) : kNone;
}

}  // namespace

void attention_reference(const AttentionParams& params, ThreadPool& pool) {
  const int64_t num_heads = params.heads.num_q_heads;
  pool.parallel_for(params.step.limits.max_tokens * num_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) attend(params, i / num_heads, i % num_heads);
  });
}

}  // namespace headrace::attention
