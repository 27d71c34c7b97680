// SPDX-License-Identifier: Apache-2.0
// The plain decoder: attention and SwiGLU in every layer. Llama itself and what differs from it
// only in its weights.
#pragma once

#include "model/attention_layer.h"
#include "model/family.h"

namespace headrace::model {

// The weights of a Llama; other families start from these. `query_rows`: what q_proj makes.
WeightTable llama_weights(Dim query_rows = Dim::kQuery);
// The norms over each head of q and k, where a family has them.
WeightTable qk_norm_weights();

Result<std::unique_ptr<Model>> create_plain_decoder(const ModelConfig& config, WeightLoader& loader,
                                                    const AttentionTraits& traits);

}  // namespace headrace::model
