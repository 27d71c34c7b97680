// SPDX-License-Identifier: Apache-2.0
// The hybrid decoder: GDN layers with a gated attention layer now and then. Qwen3.5 itself and
// what differs from it only in how the GDN projections are stored.
#pragma once

#include "model/family.h"
#include "model/gdn_layer.h"

namespace headrace::model {

inline constexpr float kHybridNormOffset = 1.0f;  // norm weights are zero-centred

// The weight table of a hybrid model; `gdn_projections` are the rows that differ.
WeightTable hybrid_weights(const WeightTable& gdn_projections);

Result<std::unique_ptr<Model>> create_hybrid_decoder(const ModelConfig& config,
                                                     WeightLoader& loader,
                                                     GdnLayer::ProjectionParts projection_parts);

}  // namespace headrace::model
