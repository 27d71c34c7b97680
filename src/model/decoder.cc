// SPDX-License-Identifier: Apache-2.0
#include "model/decoder.h"

#include <algorithm>

#include "model/cache_layout.h"
#include "ops/rope.h"

namespace headrace::model {
namespace {

std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim) {
  switch (rope.type) {
    case RopeType::kLinear:
      return ops::rope_linear_inv_freq(rope.theta, rotary_dim, rope.factor);
    case RopeType::kLlama3:
      return ops::rope_llama3_inv_freq(rope.theta, rotary_dim, rope.factor, rope.low_freq_factor,
                                       rope.high_freq_factor,
                                       rope.original_max_position_embeddings);
    case RopeType::kDefault:
      break;
  }
  return ops::rope_default_inv_freq(rope.theta, rotary_dim);
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const AttentionTraits& traits, float norm_offset)
    : config_(config), attention_traits_(traits), norm_offset_(norm_offset) {}

Result<Norm> Decoder::load_norm(WeightLoader& loader, WeightId id, int32_t layer) const {
  HEADRACE_ASSIGN_OR_RETURN(Buffer weight, loader.vector({id}, layer));
  return Norm{std::move(weight), norm_offset_, static_cast<float>(config_.rms_norm_eps)};
}

Status Decoder::load_rest(WeightLoader& loader) {
  backend_ = &loader.backend();
  HEADRACE_ASSIGN_OR_RETURN(embedding_, loader.table(WeightId::kEmbedding));
  HEADRACE_ASSIGN_OR_RETURN(final_norm_, load_norm(loader, WeightId::kFinalNorm, 0));
  const WeightId head = config_.tie_word_embeddings ? WeightId::kEmbedding : WeightId::kHead;
  HEADRACE_ASSIGN_OR_RETURN(head_, loader.matrix({head}, 0));

  rope_.rotary_dim = ops::rope_rotary_dim(config_.head_dim, config_.rope.partial_rotary_factor);
  const std::vector<float> inv_freq = inverse_frequencies(config_.rope, rope_.rotary_dim);
  HEADRACE_ASSIGN_OR_RETURN(inv_freq_,
                            Buffer::allocate(backend_->device, inv_freq.size() * sizeof(float)));
  std::copy(inv_freq.begin(), inv_freq.end(), inv_freq_.as<float>());
  rope_.inv_freq = inv_freq_.as<float>();
  weight_bytes_ = loader.bytes();
  return {};
}

const gdn::GdnShape* Decoder::gdn_shape() const {
  return config_.num_layers_of(LayerKind::kGdn) > 0 ? &config_.gdn : nullptr;
}

ScratchWidths Decoder::widths() const {
  ScratchWidths widths;
  widths.hidden = config_.hidden_size;
  widths.projection = 2 * int64_t{config_.intermediate_size};
  widths.mixed = config_.intermediate_size;
  if (config_.num_layers_of(LayerKind::kAttention) > 0) {
    widths.query = AttentionLayer::query_width(config_);
    widths.projection =
        std::max(widths.projection, AttentionLayer::projection_width(config_, attention_traits_));
    widths.mixed = std::max(widths.mixed, widths.query);
  }
  if (const gdn::GdnShape* gdn = gdn_shape(); gdn != nullptr) {
    widths.projection = std::max<int64_t>(widths.projection, gdn->projection_dim());
    widths.mixed = std::max<int64_t>(widths.mixed, gdn->value_dim());
  }
  return widths;
}

int64_t Decoder::page_bytes(const CacheSpec& spec) const {
  return model::page_bytes(config_, spec);
}

int64_t Decoder::slot_bytes(const CacheSpec& spec) const {
  return model::slot_bytes(config_, spec);
}

int64_t Decoder::workspace_bytes(const metadata::Limits& limits) const {
  return lay_out_scratch(widths(), gdn_shape(), limits, nullptr).size_bytes;
}

Pass Decoder::begin(Stream& stream, Cache& cache, const StepIo& io) const {
  Pass pass{stream, *backend_, cache, io.step,
            lay_out_scratch(widths(), gdn_shape(), io.step.limits, io.workspace)};
  ops::EmbeddingParams embed;
  embed.table = embedding_.view;
  embed.ids = io.token_ids;
  embed.out = pass.scratch.residual;
  embed.step = pass.step;
  pass.ops.embedding(stream, embed);
  return pass;
}

void Decoder::finish(Pass& pass, const StepIo& io) const {
  normalise(pass, final_norm_);
  ops::GatherLogitRowsParams gather;
  gather.x = pass.scratch.normed;
  gather.out = pass.scratch.delta;
  gather.hidden = config_.hidden_size;
  gather.step = pass.step;
  pass.ops.gather_logit_rows(pass.stream, gather);
  linear(pass, *head_, nullptr, pass.scratch.delta, io.logits, ops::TokenCount::kLogitTokens);
}

}  // namespace headrace::model
