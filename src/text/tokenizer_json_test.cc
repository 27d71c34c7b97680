// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json may say.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/support/scale.h"
#include "text/bpe_tokenizer.h"
#include "text/test_tokenizer.h"
#include "text/unicode.h"

namespace headrace::text {
namespace {

using namespace test_data;
using nlohmann::json;
using Ids = std::vector<int32_t>;

Ids encode(const json& file, std::string_view text) {
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  if (!tokenizer.ok()) return {};
  const auto ids = (*tokenizer)->encode(text, {});
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : Ids{};
}

TEST(TokenizerJson, MergesAsPairsOrStrings) {
  json file = good_file();
  EXPECT_EQ(encode(file, "hello<s>"), (Ids{259, 260}));
  file["model"]["merges"] = {"#version: 0.2", "h e", "l l", "he ll", "hell o"};
  EXPECT_EQ(encode(file, "hello<s>"), (Ids{259, 260}));
  file["model"].erase("type");  // old files
  EXPECT_EQ(encode(file, "hello"), (Ids{259}));
}

TEST(TokenizerJson, IgnoreMerges) {
  json file = good_file();
  file["model"]["merges"] = json::array();
  EXPECT_EQ(encode(file, "hello"), (Ids{'h', 'e', 'l', 'l', 'o'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(file, "hello hell"), (Ids{259, ' ', 'h', 'e', 'l', 'l'}));
}

TEST(TokenizerJson, PostProcessors) {
  json file = good_file();
  const json bos = template_processor({special_piece("<s>"), kSequencePiece});
  file["post_processor"] = bos;
  EXPECT_EQ(encode(file, "he"), (Ids{260, 256}));
  EXPECT_EQ(encode(file, ""), (Ids{260}));
  file["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  EXPECT_EQ(encode(file, "he"), (Ids{256}));
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}}, bos, template_processor({kSequencePiece, special_piece("!?")})}}};
  EXPECT_EQ(encode(file, "he"), (Ids{260, 256, '!', '?'}));
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  Tokenizer::EncodeOptions options;
  options.add_special_tokens = false;
  EXPECT_EQ(*(*tokenizer)->encode("he", options), (Ids{256}));
}

TEST(TokenizerJson, Normalizers) {
  json file = good_file();
  EXPECT_EQ(encode(file, "e\u0301"), (Ids{'e', 0xCC, 0x81}));
  for (const json& normalizer :
       {json{{"type", "NFC"}},
        json{{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "NFC"}}}}}}) {
    file["normalizer"] = normalizer;
    EXPECT_EQ(encode(file, "e\u0301<s>"), (Ids{0xC3, 0xA9, 260}));
  }
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  EXPECT_EQ(encode(file, "e\u0301"), (Ids{'e', 0xCC, 0x81}));
}

TEST(TokenizerJson, PreTokenizers) {
  json file = good_file();
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = byte_level;
  EXPECT_EQ(encode(file, "hello"), (Ids{259}));
  const json split = {{"type", "Split"},
                      {"pattern", {{"String", "l"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  EXPECT_EQ(encode(file, "hello"), (Ids{256, 'l', 'l', 'o'}));
  file["pre_tokenizer"]["pretokenizers"][0] = {
      {"type", "Split"}, {"pattern", {{"Regex", "e|o"}}}, {"behavior", "MergedWithNext"}};
  EXPECT_EQ(encode(file, "hello"), (Ids{'h', 'e', 257, 'o'}));
  file["pre_tokenizer"] = {{"type", "ByteLevel"}};  // a space in front, and GPT-2's pattern
  EXPECT_EQ(encode(file, "hello"), (Ids{' ', 259}));
  EXPECT_EQ(encode(file, "<s>he"), (Ids{260, ' ', 256}));
  EXPECT_EQ(encode(file, ""), Ids());
}

TEST(TokenizerJson, VocabulariesWithHolesAndMissingBytes) {
  json file = good_file();
  json& vocab = file["model"]["vocab"];
  vocab["hello"] = 400;
  vocab.erase(std::string(byte_to_char(0xC0)));  // never in UTF-8
  file["model"]["byte_fallback"] = true;
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 401);
  EXPECT_EQ((*tokenizer)->token_bytes(300), "");
  EXPECT_EQ((*tokenizer)->decode({256, 300, 400}, false), "hehello");
  EXPECT_EQ(encode(file, "hello"), (Ids{400}));
  vocab.erase("z");
  EXPECT_EQ(make_bpe_tokenizer(file.dump()).status().code(), StatusCode::kUnsupported);
  file["model"]["byte_fallback"] = false;
  EXPECT_EQ(encode(file, "az"), (Ids{'a'}));
  file["model"]["unk_token"] = "he";
  EXPECT_EQ(encode(file, "azz"), (Ids{'a', 256, 256}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(encode(file, "azz"), (Ids{'a', 256}));
}

TEST(TokenizerJson, AddedTokensDecodeToTheirOwnText) {
  json file = good_file();
  const auto add = [&](int id, const char* content) {
    file["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", false}});
  };
  add(261, "\u00E9t\u00E9");  // would spell the bytes E9 74 E9
  add(262, "a b");
  add('\xE9' & 0xFF, "\u00E9");  // but this one is the byte E9 of the vocabulary
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->decode({261, 262}, true), "\u00E9t\u00E9a b");
  EXPECT_EQ((*tokenizer)->token_bytes(0xE9), "\xE9");
  EXPECT_EQ((*tokenizer)->decode(*(*tokenizer)->encode("\u6BD5\uA669", {}), false), "\u6BD5\uA669");
}

TEST(TokenizerJson, DecodeOfEncodeIsTheNormalizedText) {
  json file = good_file();
  file["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::string_view pieces[] = {"e",      "\u0301", "\u0323", "\u00E9",    "A\u030A",
                                     "\u212B", "\u1100", "\u1161", "\u11A8",    "\uAC00",
                                     "\u0958", "hello",  " ",      "\U0001D15E"};
  std::mt19937 random(11);
  int changed = 0;
  for (int i = 0; i < test::scaled(20'000); ++i) {
    std::string text;
    const size_t count = random() % 10;
    for (size_t k = 0; k < count; ++k) text += pieces[random() % std::size(pieces)];
    const std::string normalized = *normalize_nfc(text);
    changed += normalized != text;
    ASSERT_EQ((*tokenizer)->decode(*(*tokenizer)->encode(text, {}), false), normalized);
  }
  EXPECT_GT(changed, 0);
}

TEST(TokenizerJson, ThreadsShareATokenizer) {
  json file = good_file();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "e+|\\s"}}}, {"behavior", "Isolated"}},
        file["pre_tokenizer"]}}};
  const auto tokenizer = make_bpe_tokenizer(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::string text = "hello <s> hell seen\n";
  const Ids expected = *(*tokenizer)->encode(text, {});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += *(*tokenizer)->encode(text, {}) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace headrace::text
