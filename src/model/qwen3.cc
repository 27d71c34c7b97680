// SPDX-License-Identifier: Apache-2.0
// Qwen3ForCausalLM: Llama with an RMSNorm over each head of q and k.
#include "model/llama.h"

namespace headrace::model {

const Family& qwen3_family() {
  static const WeightTable weights = joined({llama_weights(), qk_norm_weights()});
  static const Family family{
      weights,
      {"model."},
      {},
      0.0f,
      [](const ModelConfig& config, WeightLoader& loader) {
        AttentionTraits traits;
        traits.qk_norm = true;
        return create_plain_decoder(config, loader, traits);
      },
  };
  return family;
}

}  // namespace headrace::model
