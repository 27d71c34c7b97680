// SPDX-License-Identifier: Apache-2.0
#include "model/weight_table.h"

#include "base/check.h"

namespace headrace::model {
namespace {

int64_t size_of(Dim dim, const ModelConfig& config) {
  const gdn::GdnShape& gdn = config.gdn;
  const int64_t head_dim = config.head_dim;
  switch (dim) {
    case Dim::kNone:
    case Dim::kOne:
      return 1;
    case Dim::kVocab:
      return config.vocab_size;
    case Dim::kHidden:
      return config.hidden_size;
    case Dim::kIntermediate:
      return config.intermediate_size;
    case Dim::kHeadDim:
      return head_dim;
    case Dim::kQuery:
      return config.num_q_heads * head_dim;
    case Dim::kGatedQuery:
      return 2 * config.num_q_heads * head_dim;
    case Dim::kKv:
      return config.num_kv_heads * head_dim;
    case Dim::kGdnConv:
      return gdn.conv_dim();
    case Dim::kGdnWidth:
      return gdn.conv_width;
    case Dim::kGdnValue:
      return gdn.value_dim();
    case Dim::kGdnQkvz:
      return gdn.conv_dim() + gdn.value_dim();
    case Dim::kGdnBa:
      return 2 * gdn.num_v_heads;
    case Dim::kGdnHeads:
      return gdn.num_v_heads;
    case Dim::kGdnValueDim:
      return gdn.v_dim;
  }
  HEADRACE_CHECK(false, "unknown dim");
}

bool stands_once(Where where) { return where == Where::kOnce || where == Where::kOnceUntied; }

bool applies(Where where, const ModelConfig& config, LayerKind kind) {
  switch (where) {
    case Where::kOnce:
    case Where::kEveryLayer:
      return true;
    case Where::kOnceUntied:
      return !config.tie_word_embeddings;
    case Where::kAttention:
      return kind == LayerKind::kAttention;
    case Where::kAttentionBias:
      return kind == LayerKind::kAttention && config.attention_bias;
    case Where::kGdn:
      return kind == LayerKind::kGdn;
  }
  HEADRACE_CHECK(false, "unknown place");
}

ExpectedWeight expect(const WeightRow& row, const ModelConfig& config, std::string_view prefix,
                      int32_t layer) {
  ExpectedWeight weight{row.id, layer, std::string(row.name), {}};
  if (row.name.substr(0, kPrefix.size()) == kPrefix) {
    weight.name = std::string(prefix) + std::string(row.name.substr(kPrefix.size()));
  }
  if (const size_t star = weight.name.find('*'); star != std::string::npos) {
    weight.name.replace(star, 1, std::to_string(layer));
  }
  for (const Dim dim : row.shape) {
    if (dim != Dim::kNone) weight.shape.push_back(size_of(dim, config));
  }
  return weight;
}

}  // namespace

WeightTable joined(std::initializer_list<WeightTable> parts) {
  WeightTable table;
  for (const WeightTable& part : parts) table.insert(table.end(), part.begin(), part.end());
  return table;
}

int64_t ExpectedWeight::num_elements() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::vector<ExpectedWeight> expected_weights(const WeightTable& table, const ModelConfig& config,
                                             std::string_view prefix) {
  std::vector<ExpectedWeight> weights;
  for (const WeightRow& row : table) {
    const int32_t count = stands_once(row.where) ? 1 : config.num_layers;
    for (int32_t layer = 0; layer < count; ++layer) {
      if (applies(row.where, config, config.layers[static_cast<size_t>(layer)])) {
        weights.push_back(expect(row, config, prefix, layer));
      }
    }
  }
  return weights;
}

}  // namespace headrace::model
