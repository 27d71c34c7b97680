// SPDX-License-Identifier: Apache-2.0
// What config.json says, brought into one spelling and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gdn/gdn_params.h"
#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace::model {

enum class LayerKind { kAttention, kGdn };

enum class RopeType { kDefault, kLinear, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;            // part of head_dim that rotates
  double factor = 1.0;                           // linear, llama3
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  int64_t original_max_position_embeddings = 0;  // llama3
};

struct ModelConfig {
  std::string architecture;  // as in config.json
  DType dtype = DType::kBF16;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t vocab_size = 0;
  int32_t max_position_embeddings = 0;
  int32_t num_q_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  RopeConfig rope;
  std::vector<LayerKind> layers;       // num_layers entries
  gdn::GdnShape gdn;                   // all zero without GDN layers
  std::vector<int32_t> eos_token_ids;  // config.json and generation_config.json, sorted, distinct

  int32_t num_layers_of(LayerKind kind) const;
};

// Reads <folder>/config.json (and generation_config.json if it is there).
Result<ModelConfig> load_config(const std::string& folder);
// The same from text, for tests and fuzzing; `generation_config` may be empty.
Result<ModelConfig> parse_config(const std::string& config, const std::string& generation_config);

}  // namespace headrace::model
