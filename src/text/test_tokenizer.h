// SPDX-License-Identifier: Apache-2.0
// A small tokenizer.json for tests, to be changed by them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/byte_level.h"

namespace headrace::text::test_data {

using nlohmann::json;

// A small good file: all bytes (id = byte), "he" 256, "ll" 257, "hell" 258, "hello" 259, <s> 260.
inline json good_file() {
  json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(byte_to_char(static_cast<uint8_t>(byte)))] = byte;
  }
  vocab["he"] = 256;
  vocab["ll"] = 257;
  vocab["hell"] = 258;
  vocab["hello"] = 259;
  json file;
  file["version"] = "1.0";
  file["added_tokens"] = {{{"id", 260},
                           {"content", "<s>"},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}}};
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  file["post_processor"] = nullptr;
  file["decoder"] = {{"type", "ByteLevel"}};
  file["model"] = {
      {"type", "BPE"},
      {"vocab", vocab},
      {"merges", json::parse(R"([["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"]])")}};
  return file;
}

inline json special_piece(const char* name) {
  return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
}

inline json template_processor(std::vector<json> single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", json::array()},
          {"special_tokens",
           {{"<s>", {{"id", "<s>"}, {"ids", {260}}, {"tokens", {"<s>"}}}},
            {"!?", {{"id", "!?"}, {"ids", {'!', '?'}}, {"tokens", {"!", "?"}}}}}}};
}

inline const json kSequencePiece = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};

}  // namespace headrace::text::test_data
