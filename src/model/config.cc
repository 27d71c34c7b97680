// SPDX-License-Identifier: Apache-2.0
// config.json in the spellings of transformers 4 and 5 → ModelConfig. Every value is checked here,
// so that nothing behind it needs to.
#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/architectures.h"
#include "model/json_reader.h"
#include "model/mapped_file.h"

namespace headrace::model {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr IntRange kHiddenRange{1, 1 << 18};
constexpr IntRange kIntermediateRange{1, 1 << 22};
constexpr IntRange kLayersRange{1, 1024};
constexpr IntRange kCountRange{1, INT32_MAX};  // vocabulary, positions
constexpr IntRange kHeadsRange{1, 1024};
constexpr IntRange kHeadDimRange{8, 512};
constexpr IntRange kGdnDimRange{1, 512};
constexpr IntRange kConvRange{2, 8};
constexpr int32_t kMaxGroup = 16;  // query heads that share a key head

Result<const Architecture*> read_architecture(const JsonReader& json) {
  const nlohmann::json* list = json.find_top("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) {
    return invalid_data("architectures must be a list with the name of the model's architecture");
  }
  const std::string name = list->front().get<std::string>();
  const Architecture* architecture = find_architecture(name);
  if (architecture != nullptr) return architecture;
  std::vector<std::string_view> known;
  for (const Architecture& entry : architectures()) known.push_back(entry.name);
  return unsupported(
      fmt::format("architecture {} is not known{}; known are {}", shown(list->front()),
                  json.find("num_experts") != nullptr || json.find("num_local_experts") != nullptr
                      ? " (and experts not supported yet)"
                      : "",
                  fmt::join(known, ", ")));
}

// Refuses what the op set cannot compute, by name.
Status refuse_unsupported(const JsonReader& json) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (json.find(key) != nullptr) {
      return unsupported(fmt::format(
          "{} is set, but quantised checkpoints are not supported; use one in bf16, fp16 or fp32",
          key));
    }
  }
  HEADRACE_ASSIGN_OR_RETURN(const std::string activation, json.string("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish") {
    return unsupported(
        fmt::format("hidden_act is {}, but only silu is supported", shown(activation)));
  }
  HEADRACE_ASSIGN_OR_RETURN(const std::string gate, json.string("output_gate_type", "silu"));
  if (gate != "silu" && gate != "swish") {
    return unsupported(
        fmt::format("output_gate_type is {}, but only silu is supported", shown(gate)));
  }
  struct Flag {
    const char* key;
    bool supported;
  };
  for (const Flag flag : {Flag{"mlp_bias", false}, Flag{"use_sliding_window", false},
                          Flag{"attn_output_gate", true}}) {
    HEADRACE_ASSIGN_OR_RETURN(const bool value, json.boolean(flag.key, flag.supported));
    if (value != flag.supported) {
      return unsupported(fmt::format("{} is {}, which is not supported", flag.key, value));
    }
  }
  return {};
}

// A layer has experts unless mlp_only_layers lists it or decoder_sparse_step passes over it.
Status refuse_experts(const JsonReader& json, const Architecture& architecture,
                      int32_t num_layers) {
  HEADRACE_ASSIGN_OR_RETURN(const int32_t local,
                            json.integer("num_local_experts", {0, INT32_MAX}, 0));
  HEADRACE_ASSIGN_OR_RETURN(const int32_t experts, json.integer("num_experts", {0, INT32_MAX},
                                                                architecture.default_num_experts));
  if (local == 0 && experts == 0) return {};
  HEADRACE_ASSIGN_OR_RETURN(const int32_t step,
                            json.integer("decoder_sparse_step", {1, INT32_MAX}, 1));
  HEADRACE_ASSIGN_OR_RETURN(const auto dense,
                            json.integers("mlp_only_layers", {0, num_layers - 1}));
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    if (!listed && (layer + 1) % step == 0) {
      return unsupported(
          fmt::format("experts not supported yet: layer {} has {} of them; only checkpoints whose "
                      "mlp_only_layers lists every layer load",
                      layer, experts + local));
    }
  }
  return {};
}

Result<DType> read_dtype(const JsonReader& json) {
  const char* key = json.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  HEADRACE_ASSIGN_OR_RETURN(const std::string name, json.string(key, "bfloat16"));
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype || (*dtype != DType::kF32 && *dtype != DType::kBF16 && *dtype != DType::kF16)) {
    return unsupported(
        fmt::format("{} is {}, but must be bfloat16, float16 or float32", key, shown(name)));
  }
  return *dtype;
}

Status read_llama3(const JsonReader& rope, RopeConfig& out) {
  HEADRACE_ASSIGN_OR_RETURN(out.low_freq_factor, rope.number("low_freq_factor", 0, 1e6));
  HEADRACE_ASSIGN_OR_RETURN(out.high_freq_factor, rope.number("high_freq_factor", 0, 1e6));
  HEADRACE_ASSIGN_OR_RETURN(out.original_max_position_embeddings,
                            rope.integer("original_max_position_embeddings", kCountRange));
  if (out.high_freq_factor <= out.low_freq_factor) {
    return invalid_data(fmt::format("high_freq_factor is {}, but must be above low_freq_factor, {}",
                                    out.high_freq_factor, out.low_freq_factor));
  }
  return {};
}

// transformers 5: rope_parameters holds everything. transformers 4: rope_theta and
// partial_rotary_factor stand beside rope_scaling, whose kind is "rope_type" or, older, "type".
Result<RopeConfig> read_rope(const JsonReader& json, const Architecture& architecture,
                             int32_t head_dim) {
  const char* key = json.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const nlohmann::json* object = json.find(key);
  if (object != nullptr && !object->is_object()) {
    return invalid_data(fmt::format("{} is {}, but must be an object", key, shown(*object)));
  }
  const JsonReader rope(object != nullptr ? *object : nlohmann::json::object(),
                        std::string(key) + ".");
  RopeConfig out;
  constexpr double kMaxTheta = 1e15;
  HEADRACE_ASSIGN_OR_RETURN(const double outer_theta,
                            json.number("rope_theta", 0, kMaxTheta, 10000.0));
  HEADRACE_ASSIGN_OR_RETURN(out.theta, rope.number("rope_theta", 0, kMaxTheta, outer_theta));
  HEADRACE_ASSIGN_OR_RETURN(
      const double outer_part,
      json.number("partial_rotary_factor", 0, 1, architecture.default_partial_rotary_factor));
  HEADRACE_ASSIGN_OR_RETURN(out.partial_rotary_factor,
                            rope.number("partial_rotary_factor", 0, 1, outer_part));
  const int32_t rotary_dim = static_cast<int32_t>(head_dim * out.partial_rotary_factor);
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    return invalid_data(fmt::format(
        "partial_rotary_factor is {}, which makes {} of {} head dims rotate; it must be an even "
        "number, at least 2",
        out.partial_rotary_factor, rotary_dim, head_dim));
  }

  const char* type_key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  HEADRACE_ASSIGN_OR_RETURN(const std::string type, rope.string(type_key, "default"));
  // Text has the same position in all three parts of mrope, which makes it plain rope.
  if (type == "default" || type == "mrope") return out;
  if (type != "linear" && type != "llama3") {
    return unsupported(fmt::format("{}.{} is {}, but only default, linear and llama3 are supported",
                                   key, type_key, shown(type)));
  }
  constexpr double kBelowOne = 1.0 - 1e-9;  // number() is open at the bottom
  HEADRACE_ASSIGN_OR_RETURN(out.factor, rope.number("factor", kBelowOne, 1e6));
  out.type = type == "linear" ? RopeType::kLinear : RopeType::kLlama3;
  if (out.type == RopeType::kLlama3) HEADRACE_RETURN_IF_ERROR(read_llama3(rope, out));
  return out;
}

Result<std::vector<LayerKind>> read_layers(const JsonReader& json, const Architecture& architecture,
                                           int32_t num_layers) {
  std::vector<LayerKind> layers(static_cast<size_t>(num_layers), LayerKind::kAttention);
  const nlohmann::json* types = json.find("layer_types");
  if (types == nullptr) {
    if (!architecture.hybrid) return layers;
    HEADRACE_ASSIGN_OR_RETURN(const int32_t interval,
                              json.integer("full_attention_interval", kLayersRange, 4));
    for (int32_t layer = 0; layer < num_layers; ++layer) {
      if ((layer + 1) % interval != 0) layers[static_cast<size_t>(layer)] = LayerKind::kGdn;
    }
    return layers;
  }
  if (!types->is_array() || types->size() != layers.size()) {
    return invalid_data(
        fmt::format("layer_types is {}, but must be a list of num_hidden_layers, {}", shown(*types),
                    num_layers));
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const nlohmann::json& type = (*types)[layer];
    if (type == "full_attention") continue;
    if (type != "linear_attention" || !architecture.hybrid) {
      return unsupported(fmt::format("layer_types[{}] is {}, but {} has only full_attention{}",
                                     layer, shown(type), architecture.name,
                                     architecture.hybrid ? " and linear_attention" : ""));
    }
    layers[layer] = LayerKind::kGdn;
  }
  return layers;
}

Status read_attention(const JsonReader& json, const Architecture& architecture,
                      ModelConfig& config) {
  HEADRACE_ASSIGN_OR_RETURN(config.num_q_heads, json.integer("num_attention_heads", kHeadsRange));
  HEADRACE_ASSIGN_OR_RETURN(config.num_kv_heads,
                            json.integer("num_key_value_heads", kHeadsRange, config.num_q_heads));
  if (config.num_q_heads % config.num_kv_heads != 0) {
    return invalid_data(
        fmt::format("num_attention_heads is {}, but must be a multiple of num_key_value_heads, {}",
                    config.num_q_heads, config.num_kv_heads));
  }
  if (config.num_q_heads / config.num_kv_heads > kMaxGroup) {
    return unsupported(
        fmt::format("num_attention_heads is {} and num_key_value_heads {}: more than {} query "
                    "heads to a key head are not supported",
                    config.num_q_heads, config.num_kv_heads, kMaxGroup));
  }
  const bool derived = json.find("head_dim") == nullptr && architecture.default_head_dim == 0;
  if (derived && config.hidden_size % config.num_q_heads != 0) {
    return invalid_data(fmt::format(
        "hidden_size is {}, but without head_dim it must be a multiple of num_attention_heads, {}",
        config.hidden_size, config.num_q_heads));
  }
  HEADRACE_ASSIGN_OR_RETURN(config.head_dim,
                            json.integer("head_dim", kHeadDimRange,
                                         derived ? config.hidden_size / config.num_q_heads
                                                 : architecture.default_head_dim));
  if (config.head_dim < kHeadDimRange.min || config.head_dim > kHeadDimRange.max ||
      config.head_dim % 8 != 0) {
    return unsupported(fmt::format("head_dim is {}, but must be a multiple of 8 from {} to {}",
                                   config.head_dim, kHeadDimRange.min, kHeadDimRange.max));
  }
  HEADRACE_ASSIGN_OR_RETURN(config.attention_bias, json.boolean("attention_bias", false));
  HEADRACE_ASSIGN_OR_RETURN(config.rope, read_rope(json, architecture, config.head_dim));
  return {};
}

Status read_gdn(const JsonReader& json, gdn::GdnShape& shape) {
  HEADRACE_ASSIGN_OR_RETURN(shape.num_k_heads, json.integer("linear_num_key_heads", kHeadsRange));
  HEADRACE_ASSIGN_OR_RETURN(shape.num_v_heads, json.integer("linear_num_value_heads", kHeadsRange));
  HEADRACE_ASSIGN_OR_RETURN(shape.k_dim, json.integer("linear_key_head_dim", kGdnDimRange));
  HEADRACE_ASSIGN_OR_RETURN(shape.v_dim, json.integer("linear_value_head_dim", kGdnDimRange));
  HEADRACE_ASSIGN_OR_RETURN(shape.conv_width,
                            json.integer("linear_conv_kernel_dim", kConvRange, 4));
  if (shape.num_v_heads % shape.num_k_heads != 0) {
    return invalid_data(fmt::format(
        "linear_num_value_heads is {}, but must be a multiple of linear_num_key_heads, {}",
        shape.num_v_heads, shape.num_k_heads));
  }
  return {};
}

Status add_eos(const JsonReader& json, std::vector<int32_t>& ids) {
  HEADRACE_ASSIGN_OR_RETURN(const auto found, json.integers("eos_token_id", {0, INT32_MAX}));
  for (const int64_t id : found) ids.push_back(static_cast<int32_t>(id));
  return {};
}

// The flag of the whole model comes before the text part's: the output matrix belongs to the whole.
Result<bool> read_tie(const JsonReader& json) {
  const nlohmann::json* top = json.find_top("tie_word_embeddings");
  if (top != nullptr && top->is_boolean()) return top->get<bool>();
  return json.boolean("tie_word_embeddings", false);
}

Result<ModelConfig> read_model(const JsonReader& json) {
  HEADRACE_ASSIGN_OR_RETURN(const Architecture* architecture, read_architecture(json));
  HEADRACE_RETURN_IF_ERROR(refuse_unsupported(json));
  ModelConfig config;
  config.architecture = architecture->name;
  HEADRACE_ASSIGN_OR_RETURN(config.dtype, read_dtype(json));
  HEADRACE_ASSIGN_OR_RETURN(config.hidden_size, json.integer("hidden_size", kHiddenRange));
  HEADRACE_ASSIGN_OR_RETURN(config.intermediate_size,
                            json.integer("intermediate_size", kIntermediateRange));
  HEADRACE_ASSIGN_OR_RETURN(config.num_layers, json.integer("num_hidden_layers", kLayersRange));
  HEADRACE_ASSIGN_OR_RETURN(config.vocab_size, json.integer("vocab_size", kCountRange));
  HEADRACE_ASSIGN_OR_RETURN(config.max_position_embeddings,
                            json.integer("max_position_embeddings", kCountRange));
  HEADRACE_ASSIGN_OR_RETURN(config.rms_norm_eps, json.number("rms_norm_eps", 0, 0.1, 1e-6));
  HEADRACE_ASSIGN_OR_RETURN(config.tie_word_embeddings, read_tie(json));
  HEADRACE_RETURN_IF_ERROR(refuse_experts(json, *architecture, config.num_layers));
  HEADRACE_RETURN_IF_ERROR(read_attention(json, *architecture, config));
  HEADRACE_ASSIGN_OR_RETURN(config.layers, read_layers(json, *architecture, config.num_layers));
  if (config.num_layers_of(LayerKind::kGdn) > 0) {
    HEADRACE_RETURN_IF_ERROR(read_gdn(json, config.gdn));
  }
  HEADRACE_RETURN_IF_ERROR(add_eos(json, config.eos_token_ids));
  return config;
}

}  // namespace

int32_t ModelConfig::num_layers_of(LayerKind kind) const {
  return static_cast<int32_t>(std::count(layers.begin(), layers.end(), kind));
}

Result<ModelConfig> parse_config(const std::string& config, const std::string& generation_config) {
  auto json = JsonReader::parse(config);
  if (!json.ok()) return json.status().with_context("config.json");
  auto model = read_model(*json);
  if (!model.ok()) return model.status().with_context("config.json");
  if (!generation_config.empty()) {
    auto generation = JsonReader::parse(generation_config);
    if (!generation.ok()) return generation.status().with_context("generation_config.json");
    const Status status = add_eos(*generation, model->eos_token_ids);
    if (!status.ok()) return status.with_context("generation_config.json");
  }
  std::vector<int32_t>& eos = model->eos_token_ids;
  std::sort(eos.begin(), eos.end());
  eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
  return model;
}

Result<ModelConfig> load_config(const std::string& folder) {
  auto config = read_text_file(folder + "/config.json", kMaxConfigBytes);
  if (!config.ok()) {
    if (config.status().code() != StatusCode::kNotFound) return config.status();
    return not_found(fmt::format(
        "{}/config.json: no such file; the model must be a folder with config.json and weights",
        folder));
  }
  auto generation = read_text_file(folder + "/generation_config.json", kMaxConfigBytes);
  if (!generation.ok() && generation.status().code() != StatusCode::kNotFound) {
    return generation.status();
  }
  auto model = parse_config(*config, generation.ok() ? *generation : std::string());
  if (!model.ok()) {  // the message begins with the file's name
    return Status(model.status().code(), folder + "/" + model.status().message());
  }
  return model;
}

}  // namespace headrace::model
