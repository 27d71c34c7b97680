// SPDX-License-Identifier: Apache-2.0
// Qwen3_5ForCausalLM and the text part of Qwen3_5ForConditionalGeneration.
#include "model/qwen3_5.h"

#include <optional>

#include "model/decoder.h"
#include "model/llama.h"
#include "model/mlp.h"

namespace headrace::model {
namespace {

constexpr AttentionTraits kGatedAttention{
    .qk_norm = true, .qk_norm_offset = kHybridNormOffset, .output_gate = true};

class HybridDecoder final : public Decoder {
 public:
  using Decoder::load_rest;

  explicit HybridDecoder(const ModelConfig& model_config)
      : Decoder(model_config, kGatedAttention, kHybridNormOffset) {}

  Status load_layers(WeightLoader& loader, GdnLayer::ProjectionParts projection_parts) {
    int32_t num_attention = 0;
    int32_t num_gdn = 0;
    for (int32_t index = 0; index < config().num_layers; ++index) {
      Layer layer;
      HEADRACE_ASSIGN_OR_RETURN(layer.input_norm, load_norm(loader, WeightId::kInputNorm, index));
      if (config().layers[static_cast<size_t>(index)] == LayerKind::kGdn) {
        HEADRACE_ASSIGN_OR_RETURN(
            layer.gdn, GdnLayer::load(loader, config(), projection_parts, index, num_gdn++));
      } else {
        HEADRACE_ASSIGN_OR_RETURN(
            layer.attention,
            AttentionLayer::load(loader, config(), attention_traits(), index, num_attention++));
      }
      HEADRACE_ASSIGN_OR_RETURN(layer.post_norm, load_norm(loader, WeightId::kPostNorm, index));
      HEADRACE_ASSIGN_OR_RETURN(layer.mlp, Mlp::load(loader, index));
      layers_.push_back(std::move(layer));
    }
    return {};
  }

  void forward(Stream& stream, Cache& cache, const StepIo& io) const override {
    Pass pass = begin(stream, cache, io);
    for (const Layer& layer : layers_) {
      normalise(pass, layer.input_norm);
      if (layer.gdn) {
        layer.gdn->forward(pass, config());
      } else {
        layer.attention->forward(pass, config(), rope());
      }
      normalise(pass, layer.post_norm);
      layer.mlp.forward(pass, config());
    }
    finish(pass, io);
  }

 private:
  struct Layer {
    Norm input_norm;
    std::optional<GdnLayer> gdn;  // one of the two
    std::optional<AttentionLayer> attention;
    Norm post_norm;
    Mlp mlp;
  };
  std::vector<Layer> layers_;
};

Result<std::vector<LoadedWeight>> separate_projections(WeightLoader& loader, const gdn::GdnShape&,
                                                       int32_t layer) {
  std::vector<LoadedWeight> parts;
  for (const WeightId id : {WeightId::kGdnQkv, WeightId::kGdnZ, WeightId::kGdnB, WeightId::kGdnA}) {
    HEADRACE_ASSIGN_OR_RETURN(LoadedWeight part, loader.load(id, layer));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

WeightTable hybrid_weights(const WeightTable& gdn_projections) {
  using enum WeightId;
  const WeightTable gdn = {
      {kGdnConv,
       "model.layers.*.linear_attn.conv1d.weight",
       {Dim::kGdnConv, Dim::kOne, Dim::kGdnWidth},
       Where::kGdn},
      {kGdnALog, "model.layers.*.linear_attn.A_log", {Dim::kGdnHeads}, Where::kGdn},
      {kGdnDtBias, "model.layers.*.linear_attn.dt_bias", {Dim::kGdnHeads}, Where::kGdn},
      {kGdnNorm, "model.layers.*.linear_attn.norm.weight", {Dim::kGdnValueDim}, Where::kGdn},
      {kGdnOut,
       "model.layers.*.linear_attn.out_proj.weight",
       {Dim::kHidden, Dim::kGdnValue},
       Where::kGdn},
  };
  return joined({llama_weights(Dim::kGatedQuery), qk_norm_weights(), gdn, gdn_projections});
}

Result<std::unique_ptr<Model>> create_hybrid_decoder(const ModelConfig& config,
                                                     WeightLoader& loader,
                                                     GdnLayer::ProjectionParts projection_parts) {
  auto model = std::make_unique<HybridDecoder>(config);
  HEADRACE_RETURN_IF_ERROR(model->load_layers(loader, projection_parts));
  HEADRACE_RETURN_IF_ERROR(model->load_rest(loader));
  return std::unique_ptr<Model>(std::move(model));
}

const Family& qwen3_5_family() {
  using enum WeightId;
  static const WeightTable weights = hybrid_weights({
      {kGdnQkv,
       "model.layers.*.linear_attn.in_proj_qkv.weight",
       {Dim::kGdnConv, Dim::kHidden},
       Where::kGdn},
      {kGdnZ,
       "model.layers.*.linear_attn.in_proj_z.weight",
       {Dim::kGdnValue, Dim::kHidden},
       Where::kGdn},
      {kGdnB,
       "model.layers.*.linear_attn.in_proj_b.weight",
       {Dim::kGdnHeads, Dim::kHidden},
       Where::kGdn},
      {kGdnA,
       "model.layers.*.linear_attn.in_proj_a.weight",
       {Dim::kGdnHeads, Dim::kHidden},
       Where::kGdn},
  });
  static const Family family{
      weights,
      {"model.", "model.language_model."},
      {"model.visual.", "visual.", "mtp."},
      kHybridNormOffset,
      [](const ModelConfig& config, WeightLoader& loader) {
        return create_hybrid_decoder(config, loader, separate_projections);
      },
  };
  return family;
}

}  // namespace headrace::model
