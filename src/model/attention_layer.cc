// SPDX-License-Identifier: Apache-2.0
#include "model/attention_layer.h"

#include <cmath>

#include "model/cache_layout.h"

namespace headrace::model {
namespace {

const Buffer* pointer(const std::optional<Buffer>& buffer) { return buffer ? &*buffer : nullptr; }

}  // namespace

int64_t AttentionLayer::projection_width(const ModelConfig& config, const AttentionTraits& traits) {
  return query_width(config) * (traits.output_gate ? 2 : 1) +
         2 * int64_t{config.num_kv_heads} * config.head_dim;
}

Result<AttentionLayer> AttentionLayer::load(WeightLoader& loader, const ModelConfig& config,
                                            const AttentionTraits& traits, int32_t layer,
                                            int32_t cache_index) {
  AttentionLayer block;
  block.traits_ = traits;
  block.cache_index_ = cache_index;
  HEADRACE_ASSIGN_OR_RETURN(block.qkv_,
                            loader.matrix({WeightId::kQ, WeightId::kK, WeightId::kV}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.output_, loader.matrix({WeightId::kO}, layer));
  if (config.attention_bias) {
    HEADRACE_ASSIGN_OR_RETURN(
        block.qkv_bias_,
        loader.vector({WeightId::kQBias, WeightId::kKBias, WeightId::kVBias}, layer));
    HEADRACE_ASSIGN_OR_RETURN(block.output_bias_, loader.vector({WeightId::kOBias}, layer));
  }
  if (traits.qk_norm) {
    HEADRACE_ASSIGN_OR_RETURN(block.q_norm_, loader.vector({WeightId::kQNorm}, layer));
    HEADRACE_ASSIGN_OR_RETURN(block.k_norm_, loader.vector({WeightId::kKNorm}, layer));
  }
  return block;
}

void AttentionLayer::forward(Pass& pass, const ModelConfig& config,
                             const ops::RopeTable& rope) const {
  const attention::HeadShape heads{config.num_q_heads, config.num_kv_heads, config.head_dim};
  const attention::KvCache kv = kv_cache_of_layer(config, pass.cache, cache_index_);
  const Scratch& scratch = pass.scratch;

  linear(pass, *qkv_, pointer(qkv_bias_), scratch.normed, scratch.projection);

  ops::QkvRopeWriteParams split;
  split.heads = heads;
  split.projection = scratch.projection;
  split.projection_stride = qkv_->rows();
  split.has_gate = traits_.output_gate;
  split.q_norm_weight = q_norm_.as<float>();
  split.k_norm_weight = k_norm_.as<float>();
  split.norm_weight_offset = traits_.qk_norm_offset;
  split.norm_eps = static_cast<float>(config.rms_norm_eps);
  split.rope = rope;
  split.q_out = scratch.query;
  split.cache = kv;
  split.step = pass.step;
  pass.ops.qkv_rope_write(pass.stream, split);

  attention::AttentionParams attend;
  attend.heads = heads;
  attend.q = scratch.query;
  attend.q_stride = query_width(config);
  attend.out = scratch.mixed;
  attend.out_stride = query_width(config);
  attend.cache = kv;
  attend.scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  attend.step = pass.step;
  pass.ops.attention(pass.stream, attend);

  if (traits_.output_gate) {
    ops::HeadGateParams gate;
    gate.heads = heads;
    gate.projection = scratch.projection;
    gate.projection_stride = qkv_->rows();
    gate.out = scratch.mixed;
    gate.step = pass.step;
    pass.ops.head_gate(pass.stream, gate);
  }

  linear(pass, *output_, pointer(output_bias_), scratch.mixed, scratch.delta);
  pass.has_delta = true;
}

}  // namespace headrace::model
