// SPDX-License-Identifier: Apache-2.0
// Tiny random checkpoints of every family against what transformers computed from them
// (tests/golden/tiny, made by tools/make_tiny_checkpoints.py; its README explains golden.json).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "model/model.h"
#include "ops/backend.h"
#include "tests/support/model_driver.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace headrace::test {
namespace {

using Json = nlohmann::json;

std::string tiny_dir(const std::string& name) { return golden_dir() + "/tiny/" + name; }

// Little-endian floats; this reader is for little-endian machines, as is safetensors.
static_assert(std::endian::native == std::endian::little);
std::vector<float> floats_from_base64(const std::string& text) {
  static const std::string kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kAlphabet.find(c));
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits & 0xffu);
    }
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::unique_ptr<model::Model> load_or_throw(const model::LoadOptions& options) {
  auto loaded = model::load_model(options, ops::cpu_backend());
  if (!loaded.ok()) throw std::runtime_error(loaded.status().message());
  return std::move(*loaded);
}

class GoldenTinyTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream file(tiny_dir(GetParam()) + "/golden.json");
    ASSERT_TRUE(file.good());
    golden_ = Json::parse(file);
    prompt_ = golden_["prompt_ids"].get<std::vector<int32_t>>();
    ASSERT_EQ(prompt_.size(), 130u);
  }

  std::unique_ptr<model::Model> load() const {
    return load_or_throw({.folder = tiny_dir(GetParam())});
  }
  std::vector<int32_t> prompt(int64_t length) const {
    return {prompt_.begin(), prompt_.begin() + length};
  }

  Json golden_;
  std::vector<int32_t> prompt_;
};

TEST_P(GoldenTinyTest, LogitsAgreeInFp32) {
  const auto model = load();
  ASSERT_EQ(golden_["logits_f32_base64"].size(), 5u);
  for (const auto& [length, text] : golden_["logits_f32_base64"].items()) {
    const std::vector<float> want = floats_from_base64(text);
    ASSERT_EQ(static_cast<int32_t>(want.size()), model->config().vocab_size);
    ModelDriver driver(*model, {.max_rows = 1});
    const Logits got = driver.prefill(driver.add_sequence(), prompt(std::stol(length)), 512);
    EXPECT_LE(max_abs_difference(got, want), 1e-4) << "prompt of " << length;
  }
}

TEST_P(GoldenTinyTest, LogitsAgreeInBf16) {
  const auto model =
      load_or_throw({.folder = tiny_dir(GetParam()), .keep_dtype = false, .dtype = DType::kBF16});
  for (const auto& [length, text] : golden_["logits_f32_base64"].items()) {
    const std::vector<float> want = floats_from_base64(text);
    const auto [low, high] = std::minmax_element(want.begin(), want.end());
    ModelDriver driver(*model, {.kv_dtype = DType::kBF16, .max_rows = 1});
    const Logits got = driver.prefill(driver.add_sequence(), prompt(std::stol(length)), 512);
    EXPECT_LE(max_abs_difference(got, want), 2e-2 * (*high - *low)) << "prompt of " << length;
  }
}

TEST_P(GoldenTinyTest, GreedyTokensAgree) {
  const auto model = load();
  const Json& greedy = golden_["greedy"];
  const auto want = greedy["tokens"].get<std::vector<int32_t>>();
  ASSERT_EQ(want.size(), 32u);
  ModelDriver driver(*model, {.max_rows = 1});
  const int s = driver.add_sequence();
  Logits logits = driver.prefill(s, prompt(greedy["prompt_tokens"]), 512);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(argmax(logits), want[i]) << "token " << i;
    EXPECT_NEAR(gap(logits), greedy["gaps"][i].get<double>(), 2e-4) << "token " << i;
    logits = driver.step({{.sequence = s, .tokens = {want[i]}}})[0][0];
  }
}

void expect_digest(const Json& digest, const std::vector<float>& values, const std::string& what) {
  int64_t count = 1;
  for (const Json& dim : digest["shape"]) count *= dim.get<int64_t>();
  ASSERT_EQ(static_cast<int64_t>(values.size()), count) << what;
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double want = digest["l2"];
  EXPECT_NEAR(std::sqrt(squares), want, 1e-5 * want) << what;
  for (size_t i = 0; i < digest["first"].size(); ++i) {
    EXPECT_NEAR(values[i], digest["first"][i].get<double>(), 1e-4) << what << ", value " << i;
  }
}

TEST_P(GoldenTinyTest, CachesAgreeAfterTheWholePrompt) {
  const auto model = load();
  const model::ModelConfig& config = model->config();
  ModelDriver driver(*model, {.max_rows = 1});
  const int s = driver.add_sequence();
  driver.prefill(s, prompt_, 512);
  int32_t num_gdn = 0;
  int32_t num_attention = 0;
  for (const Json& layer : golden_["layers"]) {
    const std::string where = " of layer " + layer["layer"].dump();
    if (layer["type"] == "gdn") {
      // [W − 1, conv_dim] here, [conv_dim, W − 1] there.
      const std::vector<float> window = driver.conv_window(s, num_gdn);
      const auto channels = static_cast<size_t>(config.gdn.conv_dim());
      const size_t width = window.size() / channels;
      std::vector<float> transposed;
      for (size_t i = 0; i < window.size(); ++i) {
        transposed.push_back(window[i % width * channels + i / width]);
      }
      expect_digest(layer["conv_window"], transposed, "window" + where);
      expect_digest(layer["state"], driver.state(s, num_gdn), "state" + where);
      ++num_gdn;
    } else {
      const std::vector<float> keys = driver.keys(s, num_attention);
      const std::vector<float> values = driver.values(s, num_attention);
      expect_digest(layer["keys"], keys, "keys" + where);
      expect_digest(layer["values"], values, "values" + where);
      const auto token = static_cast<size_t>(config.num_kv_heads * config.head_dim);
      for (size_t i = 0; i < 16; ++i) {
        EXPECT_NEAR(keys[keys.size() - token + i],
                    layer["keys"]["last_token_first"][i].get<double>(), 1e-4);
        EXPECT_NEAR(values[values.size() - token + i],
                    layer["values"]["last_token_first"][i].get<double>(), 1e-4);
      }
      ++num_attention;
    }
  }
  EXPECT_EQ(num_gdn, config.num_layers_of(model::LayerKind::kGdn));
  EXPECT_EQ(num_attention, config.num_layers_of(model::LayerKind::kAttention));
}

std::vector<std::string> tiny_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir() + "/tiny")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenTinyTest, testing::ValuesIn(tiny_names()),
                         [](const auto& test) { return test.param; });

TEST(GoldenTinySetTest, EveryFamilyIsThere) {
  const std::vector<std::string> names = tiny_names();
  EXPECT_GE(names.size(), 10u);
  for (const char* name : {"llama_llama3_tied", "qwen3", "qwen3_5", "qwen3_5_conditional",
                           "qwen3_next_dense", "real_heads", "sharded"}) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

// Where the spelling of transformers 5 lies beside that of 4, both make the same model.
TEST(GoldenTinySetTest, BothSpellingsOfTheConfigMakeTheSameModel) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 70; ++i) prompt.push_back(i * 37 % 256);
  int compared = 0;
  for (const std::string& name : tiny_names()) {
    TempFolder folder;
    folder.copy_from(tiny_dir(name));
    std::error_code absent;
    std::filesystem::rename(folder.file("config.transformers5.json"), folder.file("config.json"),
                            absent);
    if (absent) continue;
    const auto model4 = load_or_throw({.folder = tiny_dir(name)});
    const auto model5 = load_or_throw({.folder = folder.path()});
    ModelDriver driver4(*model4, {.max_rows = 1});
    ModelDriver driver5(*model5, {.max_rows = 1});
    EXPECT_EQ(driver4.prefill(driver4.add_sequence(), prompt, 512),
              driver5.prefill(driver5.add_sequence(), prompt, 512))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

// Vision and mtp. weights are skipped, and the log says so once.
TEST(GoldenTinySetTest, SkippedWeightsAreMentionedOnce) {
  std::vector<std::string> messages;
  set_log_level(LogLevel::kInfo);
  set_log_sink([&](LogLevel, std::string_view message) { messages.emplace_back(message); });
  const auto loaded =
      model::load_model({.folder = tiny_dir("qwen3_5_conditional")}, ops::cpu_backend());
  set_log_sink(nullptr);
  set_log_level(LogLevel::kWarning);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("model.visual., mtp."), std::string::npos) << messages[0];
}

}  // namespace
}  // namespace headrace::test
