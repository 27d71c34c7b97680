// SPDX-License-Identifier: Apache-2.0
// The declarative weight map: a family lists its weights once, by name, shape and place; loading,
// dummy weights, the reports of missing and unexpected names and the counts of `inspect_model` all
// follow from that list. It knows nothing of files.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace headrace::model {

// What a weight is for. Blocks ask for weights by this, never by name.
enum class WeightId {
  kEmbedding,
  kHead,
  kFinalNorm,
  kInputNorm,
  kPostNorm,
  // attention
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,
  // GDN
  kGdnQkv,
  kGdnZ,
  kGdnB,
  kGdnA,
  kGdnQkvz,  // the four fused, interleaved by key head
  kGdnBa,
  kGdnConv,
  kGdnALog,
  kGdnDtBias,
  kGdnNorm,
  kGdnOut,
  // MLP
  kGate,
  kUp,
  kDown,
};

// A size that follows from the config.
enum class Dim {
  kNone,          // the shape ends here
  kOne,           // 1
  kVocab,         // vocab_size
  kHidden,        // hidden_size
  kIntermediate,  // intermediate_size
  kHeadDim,       // D
  kQuery,         // Hq · D
  kGatedQuery,    // Hq · 2 · D, a query and a gate for each head
  kKv,            // Hkv · D
  kGdnConv,       // 2 · Hk · K + Hv · V, the channels of the convolution
  kGdnWidth,      // W
  kGdnValue,      // Hv · V
  kGdnQkvz,       // 2 · Hk · K + 2 · Hv · V
  kGdnBa,         // 2 · Hv
  kGdnHeads,      // Hv
  kGdnValueDim,   // V
};

enum class Where {
  kOnce,
  kOnceUntied,     // only without tie_word_embeddings
  kEveryLayer,     // '*' in the name stands for the layer's number
  kAttention,      // attention layers
  kAttentionBias,  // attention layers, with attention_bias
  kGdn,            // GDN layers
};

struct WeightRow {
  WeightId id;
  std::string_view name;
  std::array<Dim, 3> shape;
  Where where;
};

// "model." at the start of a name stands for the prefix that the checkpoint uses.
using WeightTable = std::vector<WeightRow>;
// All rows of all parts.
WeightTable joined(std::initializer_list<WeightTable> parts);
inline constexpr std::string_view kPrefix = "model.";

struct ExpectedWeight {
  WeightId id = WeightId::kEmbedding;
  int32_t layer = 0;  // 0 for those that stand once
  std::string name;
  std::vector<int64_t> shape;

  int64_t num_elements() const;
};

// All weights of a model with this config.
std::vector<ExpectedWeight> expected_weights(const WeightTable& table, const ModelConfig& config,
                                             std::string_view prefix = kPrefix);

}  // namespace headrace::model
