// SPDX-License-Identifier: Apache-2.0
// Tokenizers of every structure against what Hugging Face's tokenizers makes of the same texts
// (tools/make_tokenizer_goldens.py says what the fields mean).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "headrace/tokenizer.h"
#include "tests/support/paths.h"

namespace headrace {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// `golden[field]["i"]`, or `otherwise`.
template <typename T>
T sparse(const json& golden, const char* field, size_t index, const T& otherwise) {
  const auto found = golden[field].find(std::to_string(index));
  return found == golden[field].end() ? otherwise : found->get<T>();
}

class GoldenTokenizer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = test::golden_dir() + "/tokenizer/";
    golden_ = read_json(folder + GetParam() + ".golden.json");
    texts_ = read_json(folder + "texts.json").get<std::vector<std::string>>();
    const auto file = golden_["tokenizer"].get<std::string>();
    auto loaded = Tokenizer::load(file.find('/') == file.npos ? folder + file
                                                              : test::source_dir() + "/" + file);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = *loaded;
  }

  json golden_;
  std::vector<std::string> texts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(GoldenTokenizer, Encodes) {
  EXPECT_EQ(tokenizer_->vocab_size(), golden_["vocab_size"].get<int>());
  const Ids prefix = golden_["special_prefix"].get<Ids>();
  ASSERT_EQ(golden_["ids"].size(), texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(texts_[i]));
    const Ids ids = golden_["ids"][i].get<Ids>();
    Tokenizer::EncodeOptions options;
    options.add_special_tokens = false;
    EXPECT_EQ(*tokenizer_->encode(texts_[i], options), ids);
    options.parse_special_tokens = false;
    EXPECT_EQ(*tokenizer_->encode(texts_[i], options), sparse(golden_, "plain_ids", i, ids));
    Ids with_prefix = prefix;
    with_prefix.insert(with_prefix.end(), ids.begin(), ids.end());
    EXPECT_EQ(*tokenizer_->encode(texts_[i]), with_prefix);
  }
}

TEST_P(GoldenTokenizer, Decodes) {
  for (size_t i = 0; i < texts_.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(texts_[i]));
    const Ids ids = golden_["ids"][i].get<Ids>();
    const auto all = sparse(golden_, "decoded", i, texts_[i]);
    EXPECT_EQ(tokenizer_->decode(ids, false), all);
    EXPECT_EQ(tokenizer_->decode(ids, true), sparse(golden_, "decoded_visible", i, all));
  }
  ASSERT_FALSE(golden_["decode_cases"].empty());
  for (const json& item : golden_["decode_cases"]) {
    const Ids ids = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids, false), item["text"].get<std::string>());
    StreamingDetokenizer stream(tokenizer_, false);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    EXPECT_EQ(text + stream.finish(), item["text"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer,
                         ::testing::Values("gpt2", "llama3", "qwen2", "qwen3_5", "smollm",
                                           "added_tokens", "demo"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace headrace
