// SPDX-License-Identifier: Apache-2.0
// The "model" section of tokenizer.json: vocabulary and merges.
#include <fmt/format.h>

#include <utility>

#include "text/byte_level.h"
#include "text/tokenizer_json.h"

namespace headrace::text {
namespace {

Status read_vocabulary(const json::Object& model, Vocabulary& vocabulary) {
  HEADRACE_ASSIGN_OR_RETURN(const json::Object vocab, model.get_object("vocab"));
  vocabulary.reserve(vocab.value.size());
  for (const auto& [token, value] : vocab.value) {
    int64_t id = -1;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
      return invalid_data(
          fmt::format("the id of \"{}\" in model.vocab must be an integer from 0 "
                      "to {}",
                      token, kMaxTokenId));
    }
    switch (vocabulary.add(token, static_cast<int32_t>(id))) {
      case Vocabulary::Added::kOk:
        break;
      case Vocabulary::Added::kDuplicateToken:
        return invalid_data(fmt::format("model.vocab has \"{}\" twice", token));
      case Vocabulary::Added::kDuplicateId:
        return invalid_data(fmt::format("model.vocab gives id {} to \"{}\" and to \"{}\"", id,
                                        vocabulary.tokens().get(static_cast<int32_t>(id)), token));
    }
  }
  if (vocabulary.num_tokens() == 0) return invalid_data("model.vocab is empty");
  return {};
}

// A merge is ["a", "b"], or "a b" in older files.
Result<std::pair<std::string_view, std::string_view>> read_pair(json::element element,
                                                                size_t index) {
  std::string_view line;
  if (element.get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos) {
      return std::pair(line.substr(0, space), line.substr(space + 1));
    }
  }
  json::array pair;
  std::string_view left;
  std::string_view right;
  if (element.get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
      pair.at(0).get(left) == simdjson::SUCCESS && pair.at(1).get(right) == simdjson::SUCCESS) {
    return std::pair(left, right);
  }
  return invalid_data(
      fmt::format("model.merges[{}] must be two tokens, as [\"a\", \"b\"] or \"a b\"", index));
}

Status read_merges(const json::Object& model, BpeModel& out) {
  HEADRACE_ASSIGN_OR_RETURN(const json::array merges, model.get_array("merges"));
  size_t count = 0;
  for ([[maybe_unused]] const json::element element : merges) ++count;
  out.merges.reserve(count);
  std::string merged;
  size_t index = 0;
  for (const json::element element : merges) {
    const size_t rank = index++;
    std::string_view comment;
    if (element.get(comment) == simdjson::SUCCESS && comment.starts_with("#version")) continue;
    HEADRACE_ASSIGN_OR_RETURN(const auto pair, read_pair(element, rank));
    merged.assign(pair.first).append(pair.second);
    const std::string_view names[] = {pair.first, pair.second, merged};
    int32_t ids[3];
    for (int i = 0; i < 3; ++i) {
      ids[i] = out.vocabulary.find(names[i]);
      if (ids[i] >= 0) continue;
      return invalid_data(
          fmt::format("model.merges[{}] (\"{}\" + \"{}\") names \"{}\", which is "
                      "not in model.vocab; the file is damaged, download it again",
                      rank, pair.first, pair.second, names[i]));
    }
    out.merges.add(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
  }
  return {};
}

Status refuse_variants(const json::Object& model) {
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    HEADRACE_ASSIGN_OR_RETURN(const std::string_view affix, model.get_string(key, ""));
    if (!affix.empty()) {
      return unsupported(
          fmt::format("\"{}\" is \"{}\": BPE with affixes is not supported, byte-level BPE is",
                      model.path(key), affix));
    }
  }
  if (const auto dropout = model.find("dropout")) {
    double probability = 0;
    if (dropout->get(probability) != simdjson::SUCCESS) {
      return json::wrong_type(model.path("dropout"), "a number or null");
    }
    if (probability != 0) {
      return unsupported(
          "\"model.dropout\" makes ids random and is for training; set it to null in the file");
    }
  }
  return {};
}

// UTF-8 has no such byte, so that a vocabulary need not have it.
bool never_in_utf8(int byte) { return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5; }

Status read_bytes(const json::Object& model, BpeModel& out) {
  bool complete = true;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = out.vocabulary.find(byte_to_char(static_cast<uint8_t>(byte)));
    out.byte_ids[static_cast<size_t>(byte)] = id;
    if (id < 0 && !never_in_utf8(byte)) complete = false;
  }
  HEADRACE_ASSIGN_OR_RETURN(const bool byte_fallback, model.get_bool("byte_fallback", false));
  if (byte_fallback && !complete) {
    return unsupported(
        "\"model.byte_fallback\" with a vocabulary that lacks bytes: SentencePiece-style BPE is "
        "not supported, byte-level BPE is");
  }
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view unknown, model.get_string("unk_token", ""));
  if (!unknown.empty()) {
    out.unknown_id = out.vocabulary.find(unknown);
    // Needed only if a byte can be unknown.
    if (out.unknown_id < 0 && !complete) {
      return invalid_data(
          fmt::format("\"model.unk_token\" is \"{}\", which is not in model.vocab", unknown));
    }
  }
  HEADRACE_ASSIGN_OR_RETURN(out.fuse_unknown, model.get_bool("fuse_unk", false));
  return {};
}

}  // namespace

Status read_bpe_model(const json::Object& root, BpeModel& out) {
  HEADRACE_ASSIGN_OR_RETURN(const json::Object model, root.get_object("model"));
  HEADRACE_RETURN_IF_ERROR(refuse_variants(model));
  HEADRACE_RETURN_IF_ERROR(read_vocabulary(model, out.vocabulary));
  HEADRACE_RETURN_IF_ERROR(read_merges(model, out));
  HEADRACE_RETURN_IF_ERROR(read_bytes(model, out));
  HEADRACE_ASSIGN_OR_RETURN(out.ignore_merges, model.get_bool("ignore_merges", false));
  return {};
}

}  // namespace headrace::text
