// SPDX-License-Identifier: Apache-2.0
#include "model/architectures.h"

#include "model/family.h"

namespace headrace::model {

const std::vector<Architecture>& architectures() {
  // What a silent config.json means is what transformers takes it to mean.
  static const std::vector<Architecture> list = {
      {"LlamaForCausalLM", false, 0, 1.0, 0, llama_family},
      {"Qwen3ForCausalLM", false, 128, 1.0, 0, qwen3_family},
      {"Qwen3NextForCausalLM", true, 256, 0.25, 512, qwen3_next_family},
      {"Qwen3_5ForCausalLM", true, 256, 0.25, 0, qwen3_5_family},
      {"Qwen3_5ForConditionalGeneration", true, 256, 0.25, 0, qwen3_5_family},
  };
  return list;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

}  // namespace headrace::model
