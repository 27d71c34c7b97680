// SPDX-License-Identifier: Apache-2.0
// A corpus of broken tokenizer files: each is refused with a message that names the place, none
// crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "tests/support/scale.h"
#include "text/bpe_tokenizer.h"
#include "text/test_tokenizer.h"

namespace headrace::text {
namespace {

using namespace test_data;
using nlohmann::json;
using ::testing::HasSubstr;

struct Broken {
  const char* name;
  std::function<void(json&)> change;
  StatusCode code;
  const char* message;
};

TEST(BrokenTokenizer, BrokenFilesAreRefusedByName) {
  constexpr StatusCode kInvalid = StatusCode::kInvalidData;
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  const std::vector<Broken> corpus = {
      {"no model", [](json& f) { f.erase("model"); }, kInvalid, "\"model\" is missing"},
      {"null model", [](json& f) { f["model"] = nullptr; }, kInvalid, "\"model\" is missing"},
      {"model is a list", [](json& f) { f["model"] = {1}; }, kInvalid,
       "\"model\" must be an object"},
      {"file is a list", [](json& f) { f = {1}; }, kInvalid, "must be an object"},
      {"unigram", [](json& f) { f["model"]["type"] = "Unigram"; }, kUnsupported, "\"Unigram\""},
      {"word piece", [](json& f) { f["model"]["type"] = "WordPiece"; }, kUnsupported,
       "\"WordPiece\""},
      {"unnamed",
       [](json& f) {
         f["model"].erase("type");
         f["model"].erase("merges");
       },
       kUnsupported, "unnamed"},
      {"type is a number", [](json& f) { f["model"]["type"] = 1; }, kInvalid, "model.type"},
      {"no vocab", [](json& f) { f["model"].erase("vocab"); }, kInvalid,
       "\"model.vocab\" is missing"},
      {"vocab is a list", [](json& f) { f["model"]["vocab"] = {1}; }, kInvalid, "model.vocab"},
      {"empty vocab", [](json& f) { f["model"]["vocab"] = json::object(); }, kInvalid, "is empty"},
      {"negative id", [](json& f) { f["model"]["vocab"]["he"] = -1; }, kInvalid, "\"he\""},
      {"huge id", [](json& f) { f["model"]["vocab"]["he"] = 4'194'304; }, kInvalid, "4194303"},
      {"id over 64 bits", [](json& f) { f["model"]["vocab"]["he"] = 18446744073709551615u; },
       kInvalid, "\"he\""},
      {"id is a fraction", [](json& f) { f["model"]["vocab"]["he"] = 256.5; }, kInvalid, "\"he\""},
      {"id is a string", [](json& f) { f["model"]["vocab"]["he"] = "256"; }, kInvalid, "\"he\""},
      {"duplicate id", [](json& f) { f["model"]["vocab"]["he"] = 257; }, kInvalid, "id 257"},
      {"no merges", [](json& f) { f["model"].erase("merges"); }, kInvalid, "model.merges"},
      {"merges is a map", [](json& f) { f["model"]["merges"] = json::object(); }, kInvalid,
       "\"model.merges\" must be an array"},
      {"merge of an unknown token",
       [](json& f) {
         f["model"]["merges"][1] = json::array({"l", "zz"});
       },
       kInvalid, "model.merges[1] (\"l\" + \"zz\") names \"zz\""},
      {"merge into an unknown token", [](json& f) { f["model"]["merges"][1] = "h o"; }, kInvalid,
       "names \"ho\""},
      {"merge of one", [](json& f) { f["model"]["merges"][1] = {"h"}; }, kInvalid,
       "model.merges[1]"},
      {"merge of three",
       [](json& f) {
         f["model"]["merges"][0] = {"h", "e", "l"};
       },
       kInvalid, "model.merges[0]"},
      {"merge string of three", [](json& f) { f["model"]["merges"][0] = "h e l"; }, kInvalid,
       "model.merges[0]"},
      {"merge string of one", [](json& f) { f["model"]["merges"][0] = "he"; }, kInvalid,
       "model.merges[0]"},
      {"merge of numbers",
       [](json& f) {
         f["model"]["merges"][0] = {1, 2};
       },
       kInvalid, "model.merges[0]"},
      {"merge is null", [](json& f) { f["model"]["merges"][0] = nullptr; }, kInvalid,
       "model.merges[0]"},
      {"suffix", [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, kUnsupported, "</w>"},
      {"prefix", [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }, kUnsupported,
       "##"},
      {"dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, kUnsupported, "dropout"},
      {"dropout is a string", [](json& f) { f["model"]["dropout"] = "x"; }, kInvalid, "dropout"},
      {"unknown unk_token",
       [](json& f) {
         f["model"]["unk_token"] = "<unk>";
         f["model"]["vocab"].erase("z");
       },
       kInvalid, "<unk>"},
      {"ignore_merges is a number", [](json& f) { f["model"]["ignore_merges"] = 1; }, kInvalid,
       "\"model.ignore_merges\" must be true or false"},
      {"added_tokens is a map", [](json& f) { f["added_tokens"] = json::object(); }, kInvalid,
       "\"added_tokens\" must be an array"},
      {"added token is a string", [](json& f) { f["added_tokens"][0] = "x"; }, kInvalid,
       "added_tokens[0]"},
      {"added token without id", [](json& f) { f["added_tokens"][0].erase("id"); }, kInvalid,
       "added_tokens[0].id"},
      {"added token without content", [](json& f) { f["added_tokens"][0].erase("content"); },
       kInvalid, "added_tokens[0].content"},
      {"added token with a huge id", [](json& f) { f["added_tokens"][0]["id"] = 4'194'304; },
       kInvalid, "added_tokens[0].id"},
      {"added token twice", [](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); },
       kInvalid, "\"<s>\" twice"},
      {"added id twice",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 260}, {"content", "x"}});
       },
       kInvalid, "id 260 twice"},
      {"added token with the id of another", [](json& f) { f["added_tokens"][0]["id"] = 256; },
       kInvalid, "id 256 is \"<s>\" in added_tokens and \"he\" in model.vocab"},
      {"added token with another id", [](json& f) { f["added_tokens"][0]["content"] = "he"; },
       kInvalid, "\"he\" has id 260"},
      {"single_word is a string", [](json& f) { f["added_tokens"][0]["single_word"] = "no"; },
       kInvalid, "added_tokens[0].single_word"},
      {"lower case",
       [](json& f) {
         f["normalizer"] = {{"type", "Lowercase"}};
       },
       kUnsupported, "\"Lowercase\""},
      {"NFKC in a sequence",
       [](json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}};
       },
       kUnsupported, "\"NFKC\""},
      {"normalizer without type", [](json& f) { f["normalizer"] = json::object(); }, kInvalid,
       "normalizer.type"},
      {"sequence without normalizers",
       [](json& f) {
         f["normalizer"] = {{"type", "Sequence"}};
       },
       kInvalid, "normalizer.normalizers"},
      {"no pre-tokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }, kUnsupported,
       "ByteLevel"},
      {"metaspace",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       kUnsupported, "\"Metaspace\""},
      {"split after bytes",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {f["pre_tokenizer"], f["pre_tokenizer"]}}};
       },
       kUnsupported, "after ByteLevel"},
      {"split without pattern",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}};
       },
       kInvalid, "pre_tokenizer.pattern"},
      {"split by nothing",
       [](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"String", ""}}}};
       },
       kInvalid, "is empty"},
      {"unknown behavior",
       [](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Eaten"}, {"pattern", {{"Regex", "a"}}}};
       },
       kInvalid, "\"Eaten\""},
      {"broken pattern",
       [](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a"}}}};
       },
       kUnsupported, "(a"},
      {"sentencepiece decoder",
       [](json& f) {
         f["decoder"] = {{"type", "Metaspace"}};
       },
       kUnsupported, "\"Metaspace\""},
      {"decoder in a sequence",
       [](json& f) {
         f["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}}}};
       },
       kUnsupported, "\"ByteFallback\""},
      {"roberta",
       [](json& f) {
         f["post_processor"] = {{"type", "RobertaProcessing"}};
       },
       kUnsupported, "\"RobertaProcessing\""},
      {"template without text",
       [](json& f) { f["post_processor"] = template_processor({special_piece("<s>")}); }, kInvalid,
       "leaves out the text"},
      {"template with the text twice",
       [](json& f) {
         f["post_processor"] = template_processor({kSequencePiece, kSequencePiece});
       },
       kUnsupported, "post_processor.single"},
      {"template of an unknown token",
       [](json& f) {
         f["post_processor"] = template_processor({special_piece("<x>"), kSequencePiece});
       },
       kInvalid, "<x>"},
      {"template of an unknown id",
       [](json& f) {
         f["post_processor"] = template_processor({special_piece("<s>"), kSequencePiece});
         f["post_processor"]["special_tokens"]["<s>"]["ids"] = {9999};
       },
       kInvalid, "id 9999"},
      {"template without special_tokens",
       [](json& f) {
         f["post_processor"] = template_processor({special_piece("<s>"), kSequencePiece});
         f["post_processor"].erase("special_tokens");
       },
       kInvalid, "post_processor.special_tokens"},
  };
  for (const Broken& item : corpus) {
    SCOPED_TRACE(item.name);
    json file = good_file();
    item.change(file);
    const auto tokenizer = make_bpe_tokenizer(file.dump());
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), item.code) << tokenizer.status().message();
    EXPECT_THAT(tokenizer.status().message(), HasSubstr(item.message));
  }
}

TEST(BrokenTokenizer, BrokenJsonIsRefused) {
  const std::string good = good_file().dump();
  ASSERT_TRUE(make_bpe_tokenizer(good).ok());
  for (size_t size = 0; size < good.size(); size += 1 + size / 10) {
    EXPECT_FALSE(make_bpe_tokenizer(good.substr(0, size)).ok()) << size;
  }
  for (const std::string& text :
       {std::string("null"), std::string("\xFF"), std::string("{\"model\": \"\xC3(\"}"),
        std::string(100'000, '['), std::string("{\"model\": {\"vocab\": {\"\\ud800\": 1}}}"),
        // Keys that a map would keep once.
        std::string(
            R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "merges": [],
                        "vocab": {"a": 1, "a": 2}}})")}) {
    const auto tokenizer = make_bpe_tokenizer(text);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidData);
  }
}

// Deep but valid nesting of sequences must not exhaust the stack.
TEST(BrokenTokenizer, DeepSequences) {
  std::string sequence = R"({"type": "ByteLevel"})";
  for (int i = 0; i < 400; ++i) {
    sequence = R"({"type": "Sequence", "pretokenizers": [)" + sequence + "]}";
  }
  std::string file = good_file().dump();
  const std::string old = good_file()["pre_tokenizer"].dump();
  file.replace(file.find(old), old.size(), sequence);
  const auto tokenizer = make_bpe_tokenizer(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
}

TEST(BrokenTokenizer, RandomDamageNeverCrashes) {
  const std::string good = good_file().dump();
  std::mt19937 random(10);
  const std::string_view snippets[] = {"null",
                                       "-1",
                                       "1e99",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "\"he\"",
                                       ",",
                                       "}",
                                       "\"type\"",
                                       "\"Sequence\"",
                                       "\\u0000",
                                       "999999999999999999999"};
  int loaded = 0;
  for (int i = 0; i < test::scaled(5000); ++i) {
    std::string text = good;
    const size_t num_changes = 1 + random() % 3;
    for (size_t k = 0; k < num_changes; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, snippets[random() % std::size(snippets)]);
          break;
        default: {
          // Replaces a value.
          const size_t colon = text.find(':', at);
          const size_t end = text.find_first_of(",}]", at);
          if (colon == std::string::npos || end == std::string::npos || end < colon) break;
          text.replace(colon + 1, end - colon - 1, snippets[random() % std::size(snippets)]);
        }
      }
      if (text.empty()) break;
    }
    const auto tokenizer = make_bpe_tokenizer(text);
    if (!tokenizer.ok()) {
      EXPECT_FALSE(tokenizer.status().message().empty());
      continue;
    }
    ++loaded;
    const auto ids = (*tokenizer)->encode("hello <s> 123", {});
    if (ids.ok()) (void)(*tokenizer)->decode(*ids, false);
  }
  EXPECT_GT(loaded, 0);
}

TEST(TokenizerLoad, SaysWhatIsMissing) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                       ("tokenizer_load_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto status = [&](const std::filesystem::path& path) {
    return Tokenizer::load(path.string()).status();
  };
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  };
  EXPECT_EQ(status(folder).code(), StatusCode::kNotFound);
  EXPECT_THAT(status(folder).message(), HasSubstr("no tokenizer.json in"));
  EXPECT_EQ(status(folder / "nothing.json").code(), StatusCode::kNotFound);
  write("merges.txt", "");
  EXPECT_THAT(status(folder).message(), HasSubstr("save_pretrained"));
  write("tokenizer.model", "");
  EXPECT_EQ(status(folder).code(), StatusCode::kUnsupported);
  EXPECT_THAT(status(folder).message(), HasSubstr("SentencePiece"));
  write("tokenizer.json", "{}");
  EXPECT_THAT(status(folder).message(), HasSubstr("tokenizer.json: \"model\" is missing"));
  write("tokenizer.json", good_file().dump());
  EXPECT_TRUE(status(folder).ok());
  EXPECT_TRUE(status(folder / "tokenizer.json").ok());
  write("tokenizer.json", "");
  EXPECT_EQ(status(folder).code(), StatusCode::kInvalidData);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headrace::text
