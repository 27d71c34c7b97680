// SPDX-License-Identifier: Apache-2.0
#include "model/gdn_layer.h"

#include "model/cache_layout.h"

namespace headrace::model {

Result<GdnLayer> GdnLayer::load(WeightLoader& loader, const ModelConfig& config,
                                ProjectionParts projection_parts, int32_t layer,
                                int32_t cache_index) {
  GdnLayer block;
  block.cache_index_ = cache_index;
  HEADRACE_ASSIGN_OR_RETURN(const auto parts, projection_parts(loader, config.gdn, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.projection_, loader.matrix(parts));
  HEADRACE_ASSIGN_OR_RETURN(block.output_, loader.matrix({WeightId::kGdnOut}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.conv_, loader.vector({WeightId::kGdnConv}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.a_log_, loader.vector({WeightId::kGdnALog}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.dt_bias_, loader.vector({WeightId::kGdnDtBias}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.norm_, loader.vector({WeightId::kGdnNorm}, layer));
  return block;
}

void GdnLayer::forward(Pass& pass, const ModelConfig& config) const {
  const Scratch& scratch = pass.scratch;
  linear(pass, *projection_, nullptr, scratch.normed, scratch.projection);

  gdn::GdnMixParams mix;
  mix.shape = config.gdn;
  mix.projection = scratch.projection;
  mix.projection_stride = projection_->rows();
  mix.conv_weight = conv_.as<float>();
  mix.a_log = a_log_.as<float>();
  mix.dt_bias = dt_bias_.as<float>();
  mix.norm_weight = norm_.as<float>();
  mix.norm_eps = static_cast<float>(config.rms_norm_eps);
  mix.slots = slot_pool_of_layer(config, pass.cache, cache_index_);
  mix.out = scratch.mixed;
  mix.out_stride = config.gdn.value_dim();
  mix.workspace = scratch.gdn;
  mix.step = pass.step;
  pass.ops.gdn_mix(pass.stream, mix);

  linear(pass, *output_, nullptr, scratch.mixed, scratch.delta);
  pass.has_delta = true;
}

}  // namespace headrace::model
