// SPDX-License-Identifier: Apache-2.0
// A Gated DeltaNet layer: packed projection → gdn_mix (convolution to gated norm) → output
// projection.
#pragma once

#include "model/pass.h"
#include "model/weight_loader.h"

namespace headrace::model {

class GdnLayer {
 public:
  // The parts of one layer's projection, in the order q | k | v | z | b | a.
  using ProjectionParts = Result<std::vector<LoadedWeight>> (*)(WeightLoader& loader,
                                                                const gdn::GdnShape& shape,
                                                                int32_t layer);

  // `cache_index` counts GDN layers.
  static Result<GdnLayer> load(WeightLoader& loader, const ModelConfig& config,
                               ProjectionParts projection_parts, int32_t layer,
                               int32_t cache_index);

  void forward(Pass& pass, const ModelConfig& config) const;

 private:
  int32_t cache_index_ = 0;
  Matrix projection_;
  Matrix output_;
  Buffer conv_;     // [conv_dim, W]
  Buffer a_log_;    // [Hv]
  Buffer dt_bias_;  // [Hv]
  Buffer norm_;     // [V]
};

}  // namespace headrace::model
