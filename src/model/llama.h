// SPDX-License-Identifier: Apache-2.0
// The plain decoder: attention and SwiGLU in every layer. Llama itself and what differs from it
// only in its weights.
#pragma once

#include "model/attention_layer.h"
#include "model/family.h"

namespace headrace::model {

// Rows of the weight table that Llama and Qwen3 share.
WeightTable llama_weights();

Result<std::unique_ptr<Model>> create_plain_decoder(const ModelConfig& config, WeightLoader& loader,
                                                    const AttentionTraits& traits);

}  // namespace headrace::model
