// SPDX-License-Identifier: Apache-2.0
// LlamaForCausalLM.
#include "model/llama.h"

#include "model/decoder.h"
#include "model/mlp.h"

namespace headrace::model {
namespace {

class PlainDecoder final : public Decoder {
 public:
  using Decoder::load_rest;

  PlainDecoder(const ModelConfig& model_config, const AttentionTraits& traits)
      : Decoder(model_config, traits, /*norm_offset=*/0.0f) {}

  Status load_layers(WeightLoader& loader) {
    for (int32_t layer = 0; layer < config().num_layers; ++layer) {
      HEADRACE_ASSIGN_OR_RETURN(Norm input_norm, load_norm(loader, WeightId::kInputNorm, layer));
      HEADRACE_ASSIGN_OR_RETURN(
          AttentionLayer attention,
          AttentionLayer::load(loader, config(), attention_traits(), layer, layer));
      HEADRACE_ASSIGN_OR_RETURN(Norm post_norm, load_norm(loader, WeightId::kPostNorm, layer));
      HEADRACE_ASSIGN_OR_RETURN(Mlp mlp, Mlp::load(loader, layer));
      layers_.push_back(
          {std::move(input_norm), std::move(attention), std::move(post_norm), std::move(mlp)});
    }
    return {};
  }

  void forward(Stream& stream, Cache& cache, const StepIo& io) const override {
    Pass pass = begin(stream, cache, io);
    for (const Layer& layer : layers_) {
      normalise(pass, layer.input_norm);
      layer.attention.forward(pass, config(), rope());
      normalise(pass, layer.post_norm);
      layer.mlp.forward(pass, config());
    }
    finish(pass, io);
  }

 private:
  struct Layer {
    Norm input_norm;
    AttentionLayer attention;
    Norm post_norm;
    Mlp mlp;
  };
  std::vector<Layer> layers_;
};

}  // namespace

WeightTable llama_weights(Dim query_rows) {
  using enum WeightId;
  return {
      {kEmbedding, "model.embed_tokens.weight", {Dim::kVocab, Dim::kHidden}, Where::kOnce},
      {kHead, "lm_head.weight", {Dim::kVocab, Dim::kHidden}, Where::kOnceUntied},
      {kFinalNorm, "model.norm.weight", {Dim::kHidden}, Where::kOnce},

      {kInputNorm, "model.layers.*.input_layernorm.weight", {Dim::kHidden}, Where::kEveryLayer},
      {kPostNorm,
       "model.layers.*.post_attention_layernorm.weight",
       {Dim::kHidden},
       Where::kEveryLayer},

      {kQ, "model.layers.*.self_attn.q_proj.weight", {query_rows, Dim::kHidden}, Where::kAttention},
      {kK, "model.layers.*.self_attn.k_proj.weight", {Dim::kKv, Dim::kHidden}, Where::kAttention},
      {kV, "model.layers.*.self_attn.v_proj.weight", {Dim::kKv, Dim::kHidden}, Where::kAttention},
      {kO,
       "model.layers.*.self_attn.o_proj.weight",
       {Dim::kHidden, Dim::kQuery},
       Where::kAttention},
      {kQBias, "model.layers.*.self_attn.q_proj.bias", {query_rows}, Where::kAttentionBias},
      {kKBias, "model.layers.*.self_attn.k_proj.bias", {Dim::kKv}, Where::kAttentionBias},
      {kVBias, "model.layers.*.self_attn.v_proj.bias", {Dim::kKv}, Where::kAttentionBias},
      {kOBias, "model.layers.*.self_attn.o_proj.bias", {Dim::kHidden}, Where::kAttentionBias},

      {kGate,
       "model.layers.*.mlp.gate_proj.weight",
       {Dim::kIntermediate, Dim::kHidden},
       Where::kEveryLayer},
      {kUp,
       "model.layers.*.mlp.up_proj.weight",
       {Dim::kIntermediate, Dim::kHidden},
       Where::kEveryLayer},
      {kDown,
       "model.layers.*.mlp.down_proj.weight",
       {Dim::kHidden, Dim::kIntermediate},
       Where::kEveryLayer},
  };
}

WeightTable qk_norm_weights() {
  using enum WeightId;
  return {
      {kQNorm, "model.layers.*.self_attn.q_norm.weight", {Dim::kHeadDim}, Where::kAttention},
      {kKNorm, "model.layers.*.self_attn.k_norm.weight", {Dim::kHeadDim}, Where::kAttention},
  };
}

Result<std::unique_ptr<Model>> create_plain_decoder(const ModelConfig& config, WeightLoader& loader,
                                                    const AttentionTraits& traits) {
  auto model = std::make_unique<PlainDecoder>(config, traits);
  HEADRACE_RETURN_IF_ERROR(model->load_layers(loader));
  HEADRACE_RETURN_IF_ERROR(model->load_rest(loader));
  return std::unique_ptr<Model>(std::move(model));
}

const Family& llama_family() {
  static const WeightTable weights = llama_weights();
  static const Family family{
      weights,
      {"model."},
      {},
      0.0f,
      [](const ModelConfig& config, WeightLoader& loader) {
        return create_plain_decoder(config, loader, AttentionTraits{});
      },
  };
  return family;
}

}  // namespace headrace::model
