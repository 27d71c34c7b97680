// SPDX-License-Identifier: Apache-2.0
// What all decoder-only models share around their layers: token embedding, rotary table, final norm
// and output matrix, the sizes of cache and workspace. The list of layers is the family's.
#pragma once

#include <memory>

#include "model/attention_layer.h"
#include "model/model.h"
#include "model/pass.h"
#include "model/weight_loader.h"

namespace headrace::model {

class Decoder : public Model {
 public:
  const ModelConfig& config() const override { return config_; }
  const ops::Backend& backend() const override { return *backend_; }
  int64_t page_bytes(const CacheSpec& spec) const override;
  int64_t slot_bytes(const CacheSpec& spec) const override;
  int64_t weight_bytes() const override { return weight_bytes_; }
  int64_t workspace_bytes(const metadata::Limits& limits) const override;

 protected:
  Decoder(const ModelConfig& config, const AttentionTraits& traits, float norm_offset);

  // Loads what stands once. To be called after the layers, so that weight_bytes is complete.
  Status load_rest(WeightLoader& loader);
  Result<Norm> load_norm(WeightLoader& loader, WeightId id, int32_t layer) const;

  // residual ← embedding.
  Pass begin(Stream& stream, Cache& cache, const StepIo& io) const;
  // residual (+ delta) → final norm → rows whose logits are wanted → logits.
  void finish(Pass& pass, const StepIo& io) const;

  const AttentionTraits& attention_traits() const { return attention_traits_; }
  const ops::RopeTable& rope() const { return rope_; }

 private:
  const gdn::GdnShape* gdn_shape() const;
  ScratchWidths widths() const;

  ModelConfig config_;
  AttentionTraits attention_traits_;
  float norm_offset_ = 0.0f;
  const ops::Backend* backend_ = nullptr;
  LoadedWeight embedding_;
  Norm final_norm_;
  Matrix head_;
  Buffer inv_freq_;
  ops::RopeTable rope_;
  int64_t weight_bytes_ = 0;
};

}  // namespace headrace::model
