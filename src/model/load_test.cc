// SPDX-License-Identifier: Apache-2.0
// Loading whole folders: what is refused and how it reads, and that what is stored differently but
// means the same gives the same model. (What models compute is held by tests/golden_*_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/log.h"
#include "headrace/model_info.h"
#include "model/model.h"
#include "model/safetensors_test_util.h"
#include "model/weight_files.h"
#include "ops/backend.h"
#include "tests/support/model_driver.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace headrace::model {
namespace {

using test::Logits;
using test::ModelDriver;
using test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;

std::string tiny(const std::string& name) { return test::golden_dir() + "/tiny/" + name; }

std::vector<TestTensor> tensors_of(const std::string& folder) {
  const auto files = WeightFiles::open(folder);
  if (!files.ok()) throw std::runtime_error(files.status().message());
  std::vector<TestTensor> tensors;
  for (const WeightFiles::Tensor& tensor : (*files)->tensors()) {
    const size_t bytes = tensor.entry.end_bytes - tensor.entry.begin_bytes;
    tensors.push_back({tensor.entry.name, tensor.entry.dtype, tensor.entry.shape,
                       std::string(reinterpret_cast<const char*>(tensor.data), bytes)});
  }
  return tensors;
}

TestTensor& named(std::vector<TestTensor>& tensors, const std::string& name) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

// config.json of a tiny checkpoint with other weights beside it.
void write_model(const TempFolder& folder, const std::string& name,
                 const std::vector<TestTensor>& tensors, size_t header_padding = 0) {
  std::filesystem::copy_file(tiny(name) + "/config.json", folder.file("config.json"),
                             std::filesystem::copy_options::overwrite_existing);
  folder.write("model.safetensors", safetensors_bytes(tensors, header_padding));
}

Status load_error(const std::string& folder) {
  const auto model = load_model({.folder = folder}, ops::cpu_backend());
  EXPECT_FALSE(model.ok());
  return model.status();
}

std::unique_ptr<Model> load(const LoadOptions& options) {
  auto model = load_model(options, ops::cpu_backend());
  if (!model.ok()) throw std::runtime_error(model.status().message());
  return std::move(*model);
}

Logits logits_of(const Model& model) {
  ModelDriver driver(model, {.max_rows = 1});
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 70; ++i) tokens.push_back(i * 31 % model.config().vocab_size);
  return driver.prefill(driver.add_sequence(), tokens, 512);
}

// Collects what is logged while it lives.
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel, std::string_view message) { messages.emplace_back(message); });
  }
  ~LogCapture() { set_log_sink(nullptr); }
  std::vector<std::string> messages;
};

TEST(LoadTest, MissingTensorsAreNamed) {
  TempFolder folder;
  std::vector<TestTensor> tensors = tensors_of(tiny("qwen3_5"));
  std::erase_if(tensors, [](const TestTensor& tensor) {
    return tensor.name == "model.norm.weight" || tensor.name == "model.layers.1.linear_attn.A_log";
  });
  write_model(folder, "qwen3_5", tensors);
  const Status status = load_error(folder.path());
  EXPECT_EQ(status.code(), StatusCode::kInvalidData);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(folder.file("model.safetensors")), HasSubstr("2 of"),
                    HasSubstr("model.norm.weight"), HasSubstr("model.layers.1.linear_attn.A_log")));
}

TEST(LoadTest, ALongListOfMissingTensorsIsCut) {
  TempFolder folder;
  write_model(folder, "qwen3_5", {});
  EXPECT_THAT(load_error(folder.path()).message(), HasSubstr("more; do config.json and"));
  EXPECT_LT(load_error(folder.path()).message().size(), 700u);
}

TEST(LoadTest, UnexpectedTensorsAreAWarning) {
  TempFolder folder;
  std::vector<TestTensor> tensors = tensors_of(tiny("qwen3"));
  tensors.push_back({"model.layers.0.self_attn.surprise", "F32", {1}, "1234"});
  tensors.push_back({"unknown_dtype_is_no_matter", "F4", {3}, "12"});
  write_model(folder, "qwen3", tensors);
  LogCapture log;
  const auto model = load({.folder = folder.path()});
  ASSERT_EQ(log.messages.size(), 1u);
  EXPECT_THAT(log.messages[0], AllOf(HasSubstr("2 tensors are not used"), HasSubstr("surprise")));
  EXPECT_EQ(logits_of(*model), logits_of(*load({.folder = tiny("qwen3")})));
}

TEST(LoadTest, WrongShapesAndDtypesAreNamed) {
  TempFolder folder;
  std::vector<TestTensor> tensors = tensors_of(tiny("qwen3"));
  TestTensor& norm = named(tensors, "model.norm.weight");
  norm.shape = {1, norm.shape[0]};
  write_model(folder, "qwen3", tensors);
  EXPECT_THAT(load_error(folder.path()).message(),
              AllOf(HasSubstr(folder.file("model.safetensors")), HasSubstr("\"model.norm.weight\""),
                    HasSubstr("has shape [1, ")));
  norm.shape = {norm.shape[1]};
  norm.dtype = "I16";
  write_model(folder, "qwen3", tensors);
  const Status status = load_error(folder.path());
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("\"model.norm.weight\" has dtype I16")));
}

TEST(LoadTest, DataOffItsAlignmentLoadsAllTheSame) {
  const Logits want = logits_of(*load({.folder = tiny("qwen3_5_conditional")}));
  const std::vector<TestTensor> tensors = tensors_of(tiny("qwen3_5_conditional"));
  for (size_t padding = 0; padding < 4; ++padding) {
    TempFolder folder;
    write_model(folder, "qwen3_5_conditional", tensors, padding);
    EXPECT_EQ(logits_of(*load({.folder = folder.path()})), want) << padding << " bytes";
  }
}

// bf16 → fp32 with these low bits in every element; under 0x8000 they vanish when rounded to bf16.
void widen(TestTensor& tensor, const std::string& low_bits) {
  ASSERT_EQ(tensor.dtype, "BF16");
  std::string wide;
  for (size_t i = 0; i < tensor.bytes.size(); i += 2) wide += low_bits + tensor.bytes.substr(i, 2);
  tensor.bytes = wide;
  tensor.dtype = "F32";
}

TEST(LoadTest, PartsOfOneProjectionMayDifferInDtype) {
  TempFolder folder;
  std::vector<TestTensor> tensors = tensors_of(tiny("qwen3_5"));
  for (const char* name :
       {"model.layers.0.linear_attn.in_proj_a.weight", "model.layers.3.self_attn.k_proj.weight"}) {
    widen(named(tensors, name), std::string(2, '\0'));
  }
  write_model(folder, "qwen3_5", tensors);
  const Logits got = logits_of(*load({.folder = folder.path()}));
  EXPECT_LE(test::max_abs_difference(got, logits_of(*load({.folder = tiny("qwen3_5")}))), 1e-4);
}

TEST(LoadTest, MatricesAreKeptInTheTypeAskedFor) {
  const auto kept = load({.folder = tiny("llama_gqa_untied")});
  const Logits want = logits_of(*kept);
  for (const DType dtype : {DType::kF32, DType::kF16}) {  // both hold these bf16 values exactly
    const auto other =
        load({.folder = tiny("llama_gqa_untied"), .keep_dtype = false, .dtype = dtype});
    EXPECT_LE(test::max_abs_difference(logits_of(*other), want), 1e-4) << dtype_name(dtype);
    EXPECT_EQ(other->weight_bytes() > kept->weight_bytes(), dtype == DType::kF32);
  }

  TempFolder folder;
  std::vector<TestTensor> tensors = tensors_of(tiny("llama_gqa_untied"));
  for (TestTensor& tensor : tensors) {
    if (tensor.shape.size() == 2) widen(tensor, "\x34\x72");
  }
  write_model(folder, "llama_gqa_untied", tensors);
  EXPECT_GT(test::max_abs_difference(logits_of(*load({.folder = folder.path()})), want), 1e-3);
  EXPECT_EQ(logits_of(*load({.folder = folder.path(), .keep_dtype = false, .dtype = DType::kBF16})),
            want);

  const auto refused =
      load_model({.folder = tiny("llama_gqa_untied"), .keep_dtype = false, .dtype = DType::kI32},
                 ops::cpu_backend());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("int32"));
}

TEST(LoadTest, FoldersThatAreNoModels) {
  EXPECT_EQ(load_error("/nonexistent").code(), StatusCode::kNotFound);
  TempFolder folder;
  EXPECT_THAT(load_error(folder.path()).message(), HasSubstr("config.json"));
  std::filesystem::copy_file(tiny("qwen3") + "/config.json", folder.file("config.json"));
  EXPECT_THAT(load_error(folder.path()).message(),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("--load-format dummy")));
}

class DummyTest : public testing::TestWithParam<std::string> {};

// From config.json alone: finite, spread like a trained model's, a function of the seed.
TEST_P(DummyTest, LogitsAreFiniteAndSeeded) {
  TempFolder folder;
  std::filesystem::copy_file(GetParam() + "/config.json", folder.file("config.json"));
  LoadOptions options{.folder = folder.path(), .source = WeightSource::kDummy, .dummy_seed = 1};
  const Logits logits = logits_of(*load(options));
  double squares = 0;
  for (const float logit : logits) squares += double{logit} * logit;
  const double rms = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(rms, 0.1);  // a NaN fails both
  EXPECT_LT(rms, 100.0);
  EXPECT_EQ(logits_of(*load(options)), logits);
  options.dummy_seed = 2;
  EXPECT_NE(logits_of(*load(options)), logits);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const Logits other = logits_of(*load({.folder = folder.path(),
                                          .source = WeightSource::kDummy,
                                          .dummy_seed = 1,
                                          .keep_dtype = false,
                                          .dtype = dtype}));
    EXPECT_LE(test::max_abs_difference(other, logits), rms) << dtype_name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, DummyTest,
                         testing::Values(tiny("llama_llama3_tied"), tiny("qwen3"), tiny("qwen3_5"),
                                         tiny("qwen3_5_conditional"), tiny("qwen3_next_dense"),
                                         test::demo_model_dir()));

TEST(CacheTest, SizesFollowFromTheConfig) {
  const auto model = load({.folder = test::demo_model_dir()});
  CacheSpec spec{.num_pages = 3, .page_size = 16, .kv_dtype = DType::kBF16, .num_slots = 2};
  EXPECT_EQ(model->page_bytes(spec), 2 * 2 * 16 * 128 * 2);
  EXPECT_EQ(model->slot_bytes(spec), 6 * 4 * (2 * 128 * 128 + 3 * 512));
  const int64_t without_window = model->slot_bytes(spec);
  spec.max_window = 4;
  EXPECT_GT(model->slot_bytes(spec), without_window);
  const auto cache = allocate_cache(*model, spec);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(static_cast<int64_t>(cache->pages.size_bytes()), 3 * model->page_bytes(spec));
  EXPECT_EQ(static_cast<int64_t>(cache->slots.size_bytes()), 2 * model->slot_bytes(spec));
}

TEST(CacheTest, ImpossibleSpecsAreRefused) {
  const auto model = load({.folder = tiny("qwen3_5")});
  const CacheSpec good{.num_pages = 2, .num_slots = 2};
  const auto error = [&](const CacheSpec& spec) {
    const auto cache = allocate_cache(*model, spec);
    EXPECT_FALSE(cache.ok());
    return cache.status().message();
  };
  CacheSpec spec = good;
  spec.num_pages = 0;
  EXPECT_THAT(error(spec), HasSubstr("null page"));
  spec = good;
  spec.kv_dtype = DType::kFP8E4M3;
  EXPECT_THAT(error(spec), HasSubstr("fp8_e4m3"));
  spec = good;
  spec.max_window = 17;
  EXPECT_THAT(error(spec), HasSubstr("from 0 to 16"));
  spec = good;
  spec.page_size = 1 << 30;
  spec.num_pages = 1 << 30;
  EXPECT_THAT(error(spec), HasSubstr("1073741824 pages"));
}

TEST(ModelInfoTest, TheDemoModel) {
  const auto info = inspect_model(test::demo_model_dir());
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->architecture, "Qwen3_5ForCausalLM");
  EXPECT_EQ(info->num_layers, 8);
  EXPECT_EQ(info->num_attention_layers, 2);
  EXPECT_EQ(info->num_gdn_layers, 6);
  EXPECT_EQ(info->weight_bytes, 9480112);  // the data part of model.safetensors
  EXPECT_EQ(info->num_parameters, 9480112 / 2);
  EXPECT_EQ(info->kv_bytes_per_token, 2 * 2 * 128 * 2);
  EXPECT_EQ(info->state_bytes_per_sequence, 6 * 4 * (2 * 128 * 128 + 3 * 512));
  EXPECT_THAT(info->eos_token_ids, testing::ElementsAre(2));
  EXPECT_TRUE(info->skipped_weights.empty());
}

TEST(ModelInfoTest, SkippedPartsAreNamedAndNotCounted) {
  const auto info = inspect_model(tiny("qwen3_5_conditional"));
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_THAT(info->skipped_weights, testing::ElementsAre("model.visual.", "mtp."));
  int64_t counted = 0;
  for (const TestTensor& tensor : tensors_of(tiny("qwen3_5_conditional"))) {
    if (tensor.name.find("visual") != std::string::npos || tensor.name.find("mtp") == 0) continue;
    int64_t elements = 1;
    for (const int64_t dim : tensor.shape) elements *= dim;
    counted += elements;
  }
  EXPECT_EQ(info->num_parameters, counted);
}

TEST(ModelInfoTest, ConfigAloneAndBrokenWeights) {
  TempFolder folder;
  std::filesystem::copy_file(tiny("qwen3") + "/config.json", folder.file("config.json"));
  const auto alone = inspect_model(folder.path());
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(alone->weight_bytes, 2 * alone->num_parameters);
  EXPECT_EQ(alone->num_parameters, inspect_model(tiny("qwen3"))->num_parameters);
  folder.write("model.safetensors", "short");
  EXPECT_FALSE(inspect_model(folder.path()).ok());
  EXPECT_FALSE(inspect_model("/nonexistent").ok());
}

TEST(ModelInfoTest, KnownArchitecturesAreSorted) {
  const std::vector<std::string> names = known_architectures();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, testing::Contains("Qwen3_5ForConditionalGeneration"));
}

}  // namespace
}  // namespace headrace::model
