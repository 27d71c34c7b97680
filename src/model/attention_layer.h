// SPDX-License-Identifier: Apache-2.0
// A softmax attention layer: q|k|v projection → norms, rope, write to pages → attention → optional
// output gate → output projection.
#pragma once

#include <optional>

#include "model/pass.h"
#include "model/weight_loader.h"

namespace headrace::model {

// What differs between families.
struct AttentionTraits {
  bool qk_norm = false;         // RMSNorm over each head of q and k
  float qk_norm_offset = 0.0f;  // added to the weights of these norms
  bool output_gate = false;     // q_proj also makes a gate for each head
};

class AttentionLayer {
 public:
  // `cache_index` counts attention layers.
  static Result<AttentionLayer> load(WeightLoader& loader, const ModelConfig& config,
                                     const AttentionTraits& traits, int32_t layer,
                                     int32_t cache_index);

  void forward(Pass& pass, const ModelConfig& config, const ops::RopeTable& rope) const;

  static int64_t projection_width(const ModelConfig& config, const AttentionTraits& traits);
  static int64_t query_width(const ModelConfig& config) {
    return int64_t{config.num_q_heads} * config.head_dim;
  }

 private:
  AttentionTraits traits_;
  int32_t cache_index_ = 0;
  Matrix qkv_;
  Matrix output_;
  std::optional<Buffer> qkv_bias_;
  std::optional<Buffer> output_bias_;
  Buffer q_norm_;
  Buffer k_norm_;
};

}  // namespace headrace::model
