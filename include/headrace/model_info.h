// SPDX-License-Identifier: Apache-2.0
// What a model folder holds, without loading its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace {

struct ModelInfo {
  std::string architecture;    // e.g. "Qwen3_5ForCausalLM"
  DType dtype = DType::kBF16;  // of the checkpoint
  int32_t num_layers = 0;
  int32_t num_attention_layers = 0;
  int32_t num_gdn_layers = 0;
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t max_position_embeddings = 0;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;        // all attention layers, at the checkpoint's dtype
  int64_t state_bytes_per_sequence = 0;  // all GDN layers: fp32 state and convolution window
  std::vector<int32_t> eos_token_ids;
  std::vector<std::string> skipped_weights;  // prefixes that are not used, e.g. "mtp."
};

// `folder` holds config.json and *.safetensors.
Result<ModelInfo> inspect_model(const std::string& folder);

// Architecture names that load, sorted.
std::vector<std::string> known_architectures();

}  // namespace headrace
