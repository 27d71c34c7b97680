// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace headrace::model {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 256},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5}};
}

Json hybrid() {
  Json json = llama();
  json["architectures"] = {"Qwen3_5ForCausalLM"};
  json["num_hidden_layers"] = 8;
  json["head_dim"] = 64;
  json["linear_num_key_heads"] = 2;
  json["linear_num_value_heads"] = 4;
  json["linear_key_head_dim"] = 16;
  json["linear_value_head_dim"] = 32;
  return json;
}

ModelConfig parse(const Json& json, const std::string& generation = "") {
  auto config = parse_config(json.dump(), generation);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig{};
}

Status refusal(const Json& json) {
  const auto config = parse_config(json.dump(), "");
  EXPECT_FALSE(config.ok());
  return config.status();
}

std::string error_with(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return refusal(json).message();
}

TEST(ConfigTest, TheDemoModel) {
  const auto config = load_config(test::demo_model_dir());
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "Qwen3_5ForCausalLM");
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_EQ(config->hidden_size, 192);
  EXPECT_EQ(config->num_layers_of(LayerKind::kGdn), 6);
  EXPECT_EQ(config->num_layers_of(LayerKind::kAttention), 2);
  EXPECT_EQ(config->layers[3], LayerKind::kAttention);
  EXPECT_EQ(config->gdn.num_v_heads, 2);
  EXPECT_EQ(config->rope.partial_rotary_factor, 0.25);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
}

TEST(ConfigTest, PlainLlama) {
  const ModelConfig config = parse(llama());
  EXPECT_EQ(config.head_dim, 16);  // hidden_size / heads
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.num_layers_of(LayerKind::kAttention), 2);
  EXPECT_EQ(config.gdn.num_k_heads, 0);
  EXPECT_EQ(config.rope.theta, 10000.0);
}

TEST(ConfigTest, SilentConfigsMeanWhatTransformersTakesThemToMean) {
  Json json = llama();
  json.erase("num_key_value_heads");
  EXPECT_EQ(parse(json).num_kv_heads, 4);
  json["architectures"] = {"Qwen3ForCausalLM"};
  EXPECT_EQ(parse(json).head_dim, 128);
  json = hybrid();
  json.erase("head_dim");
  EXPECT_EQ(parse(json).head_dim, 256);
  EXPECT_EQ(parse(json).rope.partial_rotary_factor, 0.25);
  EXPECT_EQ(parse(json).gdn.conv_width, 4);
}

TEST(ConfigTest, RopeSpellings) {
  Json json = llama();  // transformers 4
  json["rope_theta"] = 500000;
  json["partial_rotary_factor"] = 0.5;
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  ModelConfig config = parse(json);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.rope.partial_rotary_factor, 0.5);
  EXPECT_EQ(config.rope.type, RopeType::kLinear);
  EXPECT_EQ(config.rope.factor, 2.0);

  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  config = parse(json);
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 8192);

  json = llama();  // transformers 5
  json["rope_parameters"] = {{"rope_type", "llama3"},
                             {"rope_theta", 1e6},
                             {"partial_rotary_factor", 0.25},
                             {"factor", 8},
                             {"low_freq_factor", 1},
                             {"high_freq_factor", 4},
                             {"original_max_position_embeddings", 4096}};
  json["partial_rotary_factor"] = 0.5;  // comes after
  json["head_dim"] = 64;
  config = parse(json);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.rope.partial_rotary_factor, 0.25);
  EXPECT_EQ(config.rope.factor, 8.0);

  json = hybrid();
  json["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {3, 3, 2}}};
  EXPECT_EQ(parse(json).rope.type, RopeType::kDefault);
}

TEST(ConfigTest, RopeErrors) {
  for (const char* type : {"yarn", "dynamic", "longrope", "su"}) {
    Json json = llama();
    json["rope_scaling"] = {{"rope_type", type}, {"factor", 2.0}};
    const Status status = refusal(json);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(type), HasSubstr("default, linear and llama3")));
  }
  EXPECT_THAT(error_with(llama(), "rope_scaling", {{"type", "linear"}}),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(error_with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 0}}),
              HasSubstr("rope_scaling.factor is 0"));
  EXPECT_THAT(error_with(llama(), "rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}}),
              HasSubstr("rope_parameters.low_freq_factor is missing"));
  EXPECT_THAT(error_with(llama(), "rope_parameters",
                         {{"rope_type", "llama3"},
                          {"factor", 8},
                          {"low_freq_factor", 4},
                          {"high_freq_factor", 4},
                          {"original_max_position_embeddings", 4096}}),
              HasSubstr("high_freq_factor is 4, but must be above"));
  EXPECT_THAT(error_with(llama(), "rope_theta", 0), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(error_with(llama(), "rope_theta", -1e4), HasSubstr("rope_theta is -10000"));
  EXPECT_THAT(error_with(llama(), "rope_theta", "x"), HasSubstr("rope_theta is \"x\""));
  EXPECT_THAT(error_with(llama(), "rope_scaling", 3), HasSubstr("must be an object"));
  EXPECT_THAT(error_with(llama(), "partial_rotary_factor", 0.01), HasSubstr("0 of 16 head dims"));
  EXPECT_THAT(error_with(llama(), "partial_rotary_factor", 0.2), HasSubstr("3 of 16 head dims"));
  EXPECT_THAT(error_with(llama(), "partial_rotary_factor", 1.5), HasSubstr("at most 1"));
}

TEST(ConfigTest, DtypeSpellings) {
  Json json = llama();
  EXPECT_EQ(parse(json).dtype, DType::kBF16);
  json["torch_dtype"] = "float16";
  EXPECT_EQ(parse(json).dtype, DType::kF16);
  json["dtype"] = "float32";
  EXPECT_EQ(parse(json).dtype, DType::kF32);
  EXPECT_THAT(error_with(llama(), "torch_dtype", "int8"), HasSubstr("torch_dtype is \"int8\""));
  EXPECT_THAT(error_with(llama(), "dtype", "int64"), HasSubstr("dtype is \"int64\""));
  EXPECT_THAT(error_with(llama(), "dtype", 4), HasSubstr("must be a string"));
}

TEST(ConfigTest, LayerKinds) {
  Json json = hybrid();
  const auto kinds = [](const ModelConfig& config) {
    std::string text;
    for (const LayerKind kind : config.layers) text += kind == LayerKind::kGdn ? 'g' : 'a';
    return text;
  };
  EXPECT_EQ(kinds(parse(json)), "gggaggga");
  json["full_attention_interval"] = 3;
  EXPECT_EQ(kinds(parse(json)), "ggaggagg");
  json["num_hidden_layers"] = 3;
  json["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_EQ(kinds(parse(json)), "aga");
  json["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(parse(json).gdn.num_k_heads, 0);

  EXPECT_THAT(error_with(json, "layer_types", {"full_attention"}), HasSubstr("a list of 1"));
  EXPECT_THAT(error_with(json, "layer_types", "full_attention"), HasSubstr("must be a list"));
  EXPECT_THAT(error_with(llama(), "layer_types", {"full_attention", "linear_attention"}),
              HasSubstr("layer_types[1] is \"linear_attention\""));
  EXPECT_THAT(error_with(llama(), "layer_types", {"sliding_attention", "full_attention"}),
              HasSubstr("layer_types[0] is \"sliding_attention\""));
  EXPECT_THAT(error_with(hybrid(), "full_attention_interval", 0),
              HasSubstr("full_attention_interval is 0"));
}

TEST(ConfigTest, NestedAndFlatTextKeysAreTheSame) {
  const Json flat = hybrid();
  Json nested = {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
                 {"text_config", flat},
                 {"vision_config", {{"hidden_size", 99999999}}},
                 {"hidden_size", 7}};  // not the text part's
  const ModelConfig a = parse(flat);
  const ModelConfig b = parse(nested);
  EXPECT_EQ(b.architecture, "Qwen3_5ForConditionalGeneration");
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.gdn.v_dim, b.gdn.v_dim);
  nested["tie_word_embeddings"] = true;
  nested["text_config"]["tie_word_embeddings"] = false;
  EXPECT_TRUE(parse(nested).tie_word_embeddings);
  nested.erase("tie_word_embeddings");
  EXPECT_FALSE(parse(nested).tie_word_embeddings);
}

TEST(ConfigTest, EndOfSequenceIdsAreMerged) {
  Json json = llama();
  EXPECT_TRUE(parse(json).eos_token_ids.empty());
  json["eos_token_id"] = 7;
  EXPECT_THAT(parse(json).eos_token_ids, ElementsAre(7));
  EXPECT_THAT(parse(json, R"({"eos_token_id": [9, 7, 3]})").eos_token_ids, ElementsAre(3, 7, 9));
  json["eos_token_id"] = nullptr;
  EXPECT_THAT(parse(json, R"({"eos_token_id": 5})").eos_token_ids, ElementsAre(5));
  EXPECT_THAT(error_with(llama(), "eos_token_id", -1), HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(error_with(llama(), "eos_token_id", {1, "x"}), HasSubstr("eos_token_id is \"x\""));
  const auto broken = parse_config(llama().dump(), "{");
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.status().message(), StartsWith("generation_config.json: is not valid JSON"));
}

TEST(ConfigTest, UnknownArchitecturesListTheKnownOnes) {
  const std::string message = error_with(llama(), "architectures", {"GptNeoForCausalLM"});
  EXPECT_THAT(message, AllOf(HasSubstr("\"GptNeoForCausalLM\" is not known"),
                             HasSubstr("LlamaForCausalLM, Qwen3ForCausalLM, Qwen3NextForCausalLM, "
                                       "Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration")));
  for (const Json& value : {Json(), Json("LlamaForCausalLM"), Json::array(), Json({5})}) {
    EXPECT_THAT(error_with(llama(), "architectures", value), HasSubstr("architectures must be"));
  }
}

// Each absurd value is refused by the name of its key.
TEST(ConfigTest, AbsurdNumbers) {
  for (const char* key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "vocab_size", "max_position_embeddings", "head_dim",
        "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
        "linear_value_head_dim", "linear_conv_kernel_dim"}) {
    for (const Json& value :
         {Json(0), Json(-1), Json(-(int64_t{1} << 62)), Json(int64_t{1} << 31), Json(~uint64_t{0}),
          Json(1e300), Json(2.5), Json("64"), Json::array(), Json(true)}) {
      const std::string message = error_with(hybrid(), key, value);
      EXPECT_THAT(message, StartsWith(std::string("config.json: ") + key + " is ")) << value;
      EXPECT_THAT(message, HasSubstr("must be a whole number from ")) << value;
    }
  }
  for (const char* key :
       {"hidden_size", "vocab_size", "num_hidden_layers", "linear_num_key_heads"}) {
    Json json = hybrid();
    json.erase(key);
    EXPECT_THAT(refusal(json).message(), HasSubstr(std::string(key) + " is missing"));
  }
  for (const Json& value : {Json(0), Json(-1e-6), Json(1), Json("x")}) {
    EXPECT_THAT(error_with(llama(), "rms_norm_eps", value), HasSubstr("rms_norm_eps is"));
  }
}

TEST(ConfigTest, SizesThatDoNotFitTogether) {
  EXPECT_THAT(error_with(llama(), "num_attention_heads", 6), HasSubstr("must be a multiple of"));
  EXPECT_THAT(error_with(llama(), "num_key_value_heads", 3),
              HasSubstr("num_attention_heads is 4, but must be a multiple of"));
  Json json = llama();
  json["num_attention_heads"] = 64;
  json["head_dim"] = 8;
  EXPECT_THAT(error_with(json, "num_key_value_heads", 2), HasSubstr("more than 16 query heads"));
  EXPECT_THAT(error_with(llama(), "hidden_size", 62), HasSubstr("hidden_size is 62"));
  EXPECT_THAT(error_with(llama(), "head_dim", 12), HasSubstr("head_dim is 12"));
  EXPECT_THAT(error_with(hybrid(), "linear_num_value_heads", 3),
              HasSubstr("linear_num_value_heads is 3"));
}

TEST(ConfigTest, WhatIsNotSupportedIsRefusedByName) {
  const auto unsupported_by = [](Json json, const std::string& key, const Json& value) {
    json[key] = value;
    const Status status = refusal(json);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr(key));
  };
  unsupported_by(llama(), "quantization_config", {{"quant_method", "fp8"}});
  unsupported_by(llama(), "hidden_act", "gelu");
  unsupported_by(llama(), "mlp_bias", true);
  unsupported_by(llama(), "use_sliding_window", true);
  unsupported_by(hybrid(), "attn_output_gate", false);
  unsupported_by(hybrid(), "output_gate_type", "sigmoid");
  Json nested = {{"architectures", {"Qwen3_5ForConditionalGeneration"}}, {"text_config", hybrid()}};
  nested["text_config"]["quantization_config"] = {{"bits", 4}};
  EXPECT_THAT(refusal(nested).message(), HasSubstr("quantization_config"));
}

TEST(ConfigTest, ExpertsAreRefusedUnlessNoLayerHasThem) {
  Json json = hybrid();
  json["architectures"] = {"Qwen3NextForCausalLM"};
  json["num_hidden_layers"] = 4;
  EXPECT_THAT(refusal(json).message(), HasSubstr("experts not supported yet"));  // 512 by default
  json["num_experts"] = 0;
  parse(json);
  json["num_experts"] = 64;
  json["mlp_only_layers"] = {0, 1, 3};
  EXPECT_THAT(refusal(json).message(), HasSubstr("experts not supported yet: layer 2 has 64"));
  json["mlp_only_layers"] = {3, 2, 1, 0};
  parse(json);
  json["mlp_only_layers"] = Json::array();
  json["decoder_sparse_step"] = 5;  // passes over every layer
  parse(json);
  EXPECT_THAT(error_with(json, "mlp_only_layers", {4}), HasSubstr("mlp_only_layers is 4"));
  EXPECT_THAT(error_with(json, "decoder_sparse_step", 0), HasSubstr("decoder_sparse_step is 0"));

  json = llama();
  json["num_local_experts"] = 8;
  EXPECT_THAT(refusal(json).message(), HasSubstr("experts not supported yet"));
  json = hybrid();
  json["architectures"] = {"Qwen3_5MoeForCausalLM"};
  json["num_experts"] = 256;
  EXPECT_THAT(refusal(json).message(),
              AllOf(HasSubstr("not known (and experts not supported yet)"), HasSubstr("Llama")));
}

TEST(ConfigTest, TextThatIsNoConfig) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("{}"),
        std::string("{\"a\":\xff}"), std::string(1000000, '['),
        "{\"a\":" + std::string(100000, '{'), std::string("{\"architectures\": {}}"),
        std::string("\0", 1)}) {
    const auto config = parse_config(text, "");
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(config.status().message(), StartsWith("config.json: "));
    EXPECT_LT(config.status().message().size(), 300u);
  }
}

TEST(ConfigTest, ErrorsNameTheFile) {
  const auto config = load_config("/nonexistent/model");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(config.status().message(), HasSubstr("/nonexistent/model/config.json"));
  test::TempFolder folder;
  for (const char* name : {"config.json", "generation_config.json"}) {
    folder.write("config.json", llama().dump());
    folder.write(name, "{");
    const auto broken = load_config(folder.path());
    ASSERT_FALSE(broken.ok());
    EXPECT_THAT(broken.status().message(), StartsWith(folder.file(name) + ": is not valid JSON"));
  }
}

}  // namespace
}  // namespace headrace::model
