// SPDX-License-Identifier: Apache-2.0
// The shipped tokenizer against what transformers made of the same prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "headrace/tokenizer.h"
#include "tests/support/paths.h"
#include "tests/support/scale.h"
#include "text/utf8.h"

namespace headrace {
namespace {

using Ids = std::vector<int32_t>;

class DemoTokenizer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = Tokenizer::load(test::demo_model_dir());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = *loaded;
    std::ifstream file(test::golden_dir() + "/demo/golden.json");
    golden_ = nlohmann::json::parse(file);
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    golden_ = {};
  }

  // Random text: pieces of words, spaces, marks, scripts and added tokens.
  static std::string random_text(std::mt19937& random) {
    static const std::vector<std::string> kPieces = {"In the beginning",
                                                     "a",
                                                     "Z",
                                                     " ",
                                                     "  ",
                                                     "\n",
                                                     "\r\n",
                                                     "\t",
                                                     "'s",
                                                     "'LL",
                                                     "123",
                                                     "7",
                                                     "é",
                                                     "e\u0301",
                                                     "毕老师",
                                                     "\u00a0",
                                                     "\u3000",
                                                     "\u017f",
                                                     "!?",
                                                     "😀",
                                                     "\u200d",
                                                     "אב",
                                                     "\u0e33",
                                                     "<|im_start|>",
                                                     "<|im_end|>",
                                                     "<|",
                                                     "|>",
                                                     "\u0000",
                                                     "\u2028",
                                                     "½",
                                                     "Ⅷ",
                                                     "\U0001F468"};
    std::string text;
    const int count = static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) text += kPieces[random() % kPieces.size()];
    return text;
  }

  static std::shared_ptr<const Tokenizer> tokenizer_;
  static nlohmann::json golden_;
};

std::shared_ptr<const Tokenizer> DemoTokenizer::tokenizer_;
nlohmann::json DemoTokenizer::golden_;

TEST_F(DemoTokenizer, EncodesTheGoldenPrompts) {
  ASSERT_FALSE(golden_["greedy"].empty());
  for (const auto& item : golden_["greedy"]) {
    const auto prompt = item["prompt"].get<std::string>();
    const auto ids = tokenizer_->encode(prompt);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, item["ids"].get<Ids>()) << prompt;
    EXPECT_EQ(tokenizer_->decode(*ids, false), prompt);
  }
  ASSERT_FALSE(golden_["chat"].empty());
  for (const auto& item : golden_["chat"]) {
    const auto ids = tokenizer_->encode(item["rendered"].get<std::string>());
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, item["ids"].get<Ids>());
  }
}

TEST_F(DemoTokenizer, DecodesTheGoldenAnswers) {
  for (const char* section : {"greedy", "chat"}) {
    for (const auto& item : golden_[section]) {
      const Ids ids = item["tokens"].get<Ids>();
      EXPECT_EQ(tokenizer_->decode(ids, true), item["text"].get<std::string>());
    }
  }
}

TEST_F(DemoTokenizer, KnowsItsTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 4096);
  EXPECT_EQ(tokenizer_->token_id("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer_->token_id("<|im_en"), -1);
  EXPECT_EQ(tokenizer_->token_id(""), -1);
  EXPECT_TRUE(tokenizer_->is_special(0));
  EXPECT_FALSE(tokenizer_->is_special(3));
  EXPECT_EQ(tokenizer_->token_bytes(3), "!");
  for (const int32_t unknown : {-1, 4096, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer_->token_bytes(unknown), "");
    EXPECT_FALSE(tokenizer_->is_special(unknown));
  }
  EXPECT_EQ(tokenizer_->decode({-1, 3, 4096}, false), "!");
}

TEST_F(DemoTokenizer, SpecialTokensInTheTextAreAnOption) {
  Tokenizer::EncodeOptions plain;
  plain.parse_special_tokens = false;
  const std::string text = "a<|im_end|>";
  const Ids parsed = *tokenizer_->encode(text);
  const Ids spelled = *tokenizer_->encode(text, plain);
  EXPECT_EQ(parsed.back(), 2);
  EXPECT_EQ(std::count(spelled.begin(), spelled.end(), 2), 0);
  EXPECT_EQ(tokenizer_->decode(parsed, true), "a");
  EXPECT_EQ(tokenizer_->decode(parsed, false), text);
  EXPECT_EQ(tokenizer_->decode(spelled, true), text);
}

TEST_F(DemoTokenizer, NamesTheByteThatIsNoUtf8) {
  const auto ids = tokenizer_->encode("abc\xC3(");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("at byte 3"), std::string::npos) << ids.status().message();
}

TEST_F(DemoTokenizer, DecodeUndoesEncode) {
  std::mt19937 random(1);
  Tokenizer::EncodeOptions plain;
  plain.parse_special_tokens = false;
  for (int i = 0; i < test::scaled(20000); ++i) {
    const std::string text = random_text(random);
    EXPECT_EQ(tokenizer_->decode(*tokenizer_->encode(text), false), text);
    EXPECT_EQ(tokenizer_->decode(*tokenizer_->encode(text, plain), true), text);
  }
}

TEST_F(DemoTokenizer, StreamedPiecesAreTheDecodedText) {
  std::mt19937 random(2);
  for (int i = 0; i < test::scaled(20000); ++i) {
    const bool skip_special = random() % 2 == 0;
    Ids ids(random() % 20);
    // Half of them single bytes, which are seldom whole code points; a few unknown ids.
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % 2 == 0 ? random() % 260 : random() % 4100);
    }
    StreamingDetokenizer stream(tokenizer_, skip_special);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_EQ(text::find_invalid_utf8(piece), std::string::npos);
      text += piece;
    }
    text += stream.finish();
    EXPECT_EQ(text, tokenizer_->decode(ids, skip_special));
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST_F(DemoTokenizer, HoldsBackHalfACodePoint) {
  const Ids ids = *tokenizer_->encode("😀");
  ASSERT_GT(ids.size(), 1u);  // else the test shows nothing
  StreamingDetokenizer stream(tokenizer_, true);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(stream.push(ids[i]), "");
  EXPECT_EQ(stream.push(ids.back()), "😀");
  stream.push(ids.front());
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

}  // namespace
}  // namespace headrace
