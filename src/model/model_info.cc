// SPDX-License-Identifier: Apache-2.0
// What a model folder holds, from config.json and the headers of its weight files.
#include "headrace/model_info.h"

#include "model/architectures.h"
#include "model/cache_layout.h"
#include "model/family.h"
#include "model/tensor_source.h"
#include "model/weight_files.h"

namespace headrace {
namespace {

using model::Family;
using model::LayerKind;
using model::ModelConfig;
using model::WeightFiles;

// Sizes of what would be loaded, from the files' headers.
Status add_files(const Family& family, const ModelConfig& config, const WeightFiles& files,
                 ModelInfo& info) {
  const std::string prefix = find_prefix(family.weights, config, family.prefixes, files);
  const auto expected = expected_weights(family.weights, config, prefix);
  HEADRACE_RETURN_IF_ERROR(check_weights(expected, files));
  info.weight_bytes = 0;
  for (const model::ExpectedWeight& weight : expected) {
    const model::TensorEntry& entry = files.find(weight.name)->entry;
    info.weight_bytes += static_cast<int64_t>(entry.end_bytes - entry.begin_bytes);
  }
  info.skipped_weights = skipped_in(family.skipped_prefixes, files);
  return {};
}

}  // namespace

Result<ModelInfo> inspect_model(const std::string& folder) {
  HEADRACE_ASSIGN_OR_RETURN(const ModelConfig config, model::load_config(folder));
  const Family& family = model::find_architecture(config.architecture)->family();
  const int64_t element_bytes = static_cast<int64_t>(dtype_size_bytes(config.dtype));
  ModelInfo info;
  info.architecture = config.architecture;
  info.dtype = config.dtype;
  info.num_layers = config.num_layers;
  info.num_attention_layers = config.num_layers_of(LayerKind::kAttention);
  info.num_gdn_layers = config.num_layers_of(LayerKind::kGdn);
  info.hidden_size = config.hidden_size;
  info.vocab_size = config.vocab_size;
  info.max_position_embeddings = config.max_position_embeddings;
  info.eos_token_ids = config.eos_token_ids;
  for (const model::ExpectedWeight& weight : expected_weights(family.weights, config)) {
    info.num_parameters += weight.num_elements();
  }
  info.weight_bytes = info.num_parameters * element_bytes;
  info.kv_bytes_per_token = page_bytes(config, {.page_size = 1, .kv_dtype = config.dtype});
  const gdn::GdnShape& gdn = config.gdn;
  info.state_bytes_per_sequence =
      info.num_gdn_layers *
      (int64_t{gdn.value_dim()} * gdn.k_dim + int64_t{gdn.conv_width - 1} * gdn.conv_dim()) *
      static_cast<int64_t>(sizeof(float));

  // A folder with config.json alone is good for dummy weights; sizes then follow from the config.
  auto files = WeightFiles::open(folder);
  if (!files.ok()) {
    if (files.status().code() == StatusCode::kNotFound) return info;
    return files.status();
  }
  HEADRACE_RETURN_IF_ERROR(add_files(family, config, **files, info));
  return info;
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const model::Architecture& architecture : model::architectures()) {
    names.emplace_back(architecture.name);
  }
  return names;
}

}  // namespace headrace
