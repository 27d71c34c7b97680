// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace headrace::text {
namespace {

constexpr std::string_view kOnlyByteLevel =
    "only byte-level BPE tokenizers (GPT-2, Llama 3, Qwen and their like) are supported, "
    "SentencePiece and Unigram ones are not; use a model with such a tokenizer";

Status read_normalizer_step(const json::Object& step, bool& nfc) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view type, step.get_string("type"));
  if (type == "NFC") {
    nfc = true;
    return {};
  }
  if (type == "Sequence") {
    HEADRACE_ASSIGN_OR_RETURN(const json::array steps, step.get_array("normalizers"));
    for (const json::element element : steps) {
      HEADRACE_ASSIGN_OR_RETURN(const json::Object inner,
                                json::as_object(element, step.path("normalizers[]")));
      HEADRACE_RETURN_IF_ERROR(read_normalizer_step(inner, nfc));
    }
    return {};
  }
  return unsupported(
      fmt::format("normalizer \"{}\" is not supported (NFC is); {}", type, kOnlyByteLevel));
}

Status read_normalizer(const json::Object& root, bool& nfc) {
  if (!root.has("normalizer")) return {};
  HEADRACE_ASSIGN_OR_RETURN(const json::Object step, root.get_object("normalizer"));
  return read_normalizer_step(step, nfc);
}

// Decoding is always byte-level; a file that asks for another one is not what it seems.
Status check_decoder(const json::Object& decoder) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view type, decoder.get_string("type"));
  if (type == "ByteLevel" || type == "Fuse") return {};
  if (type == "Sequence") {
    HEADRACE_ASSIGN_OR_RETURN(const json::array steps, decoder.get_array("decoders"));
    for (const json::element element : steps) {
      HEADRACE_ASSIGN_OR_RETURN(const json::Object inner,
                                json::as_object(element, decoder.path("decoders[]")));
      HEADRACE_RETURN_IF_ERROR(check_decoder(inner));
    }
    return {};
  }
  return unsupported(fmt::format("decoder \"{}\" is not supported; {}", type, kOnlyByteLevel));
}

Status check_model_type(const json::Object& root) {
  if (!root.has("model")) {
    return invalid_data(
        "\"model\" is missing: this is no tokenizer.json, or only a part of one; download it "
        "again");
  }
  HEADRACE_ASSIGN_OR_RETURN(const json::Object model, root.get_object("model"));
  // Files from before 2020 do not name the type; only BPE has merges.
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view type,
                            model.get_string("type", model.has("merges") ? "BPE" : "unnamed"));
  if (type == "BPE") return {};
  return unsupported(
      fmt::format("tokenizer model \"{}\" is not supported; {}", type, kOnlyByteLevel));
}

Result<AddedToken> read_added_token(json::element element, size_t index) {
  HEADRACE_ASSIGN_OR_RETURN(const json::Object object,
                            json::as_object(element, fmt::format("added_tokens[{}]", index)));
  AddedToken token;
  HEADRACE_ASSIGN_OR_RETURN(token.content, object.get_string("content"));
  const auto id = object.find("id");
  if (!id) return invalid_data(fmt::format("\"{}\" is missing", object.path("id")));
  HEADRACE_ASSIGN_OR_RETURN(token.id, read_token_id(*id, object.path("id")));
  HEADRACE_ASSIGN_OR_RETURN(token.single_word, object.get_bool("single_word", false));
  HEADRACE_ASSIGN_OR_RETURN(token.lstrip, object.get_bool("lstrip", false));
  HEADRACE_ASSIGN_OR_RETURN(token.rstrip, object.get_bool("rstrip", false));
  HEADRACE_ASSIGN_OR_RETURN(token.special, object.get_bool("special", false));
  HEADRACE_ASSIGN_OR_RETURN(token.normalized, object.get_bool("normalized", !token.special));
  return token;
}

}  // namespace

Result<int32_t> read_token_id(json::element value, std::string_view path) {
  int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
    return invalid_data(fmt::format("\"{}\" must be an integer from 0 to {}", path, kMaxTokenId));
  }
  return static_cast<int32_t>(id);
}

Status read_added_tokens(const json::Object& root, TokenizerParts& parts) {
  if (!root.has("added_tokens")) return {};
  HEADRACE_ASSIGN_OR_RETURN(const json::array list, root.get_array("added_tokens"));
  std::unordered_set<std::string> contents;
  std::unordered_set<int32_t> ids;
  const Vocabulary& vocabulary = parts.model.vocabulary;
  size_t index = 0;
  for (const json::element element : list) {
    HEADRACE_ASSIGN_OR_RETURN(AddedToken token, read_added_token(element, index++));
    if (token.content.empty()) continue;
    if (!contents.insert(token.content).second) {
      return invalid_data(fmt::format("added_tokens has \"{}\" twice", token.content));
    }
    if (!ids.insert(token.id).second) {
      return invalid_data(fmt::format("added_tokens gives id {} twice, the second time to \"{}\"",
                                      token.id, token.content));
    }
    const int32_t id_in_vocabulary = vocabulary.find(token.content);
    if (id_in_vocabulary >= 0 && id_in_vocabulary != token.id) {
      return invalid_data(fmt::format("\"{}\" has id {} in added_tokens and {} in model.vocab",
                                      token.content, token.id, id_in_vocabulary));
    }
    if (id_in_vocabulary < 0 && vocabulary.tokens().contains(token.id)) {
      return invalid_data(fmt::format("id {} is \"{}\" in added_tokens and \"{}\" in model.vocab",
                                      token.id, token.content, vocabulary.tokens().get(token.id)));
    }
    parts.added_tokens.push_back(std::move(token));
  }
  std::stable_partition(parts.added_tokens.begin(), parts.added_tokens.end(),
                        [](const AddedToken& token) { return token.special; });
  return {};
}

Result<TokenizerParts> read_tokenizer_json(std::string_view content) {
  simdjson::dom::parser parser;
  json::element document;
  // Copies into a padded buffer of its own.
  const simdjson::error_code error =
      parser.parse(content.data(), content.size(), true).get(document);
  if (error != simdjson::SUCCESS) {
    return invalid_data(fmt::format("not valid JSON ({}); download the file again",
                                    simdjson::error_message(error)));
  }
  HEADRACE_ASSIGN_OR_RETURN(const json::Object root, json::as_object(document, ""));
  TokenizerParts parts;
  HEADRACE_RETURN_IF_ERROR(check_model_type(root));
  HEADRACE_RETURN_IF_ERROR(read_normalizer(root, parts.nfc));
  HEADRACE_RETURN_IF_ERROR(read_pre_tokenizer(root, parts.pre_tokenizer));
  if (root.has("decoder")) {
    HEADRACE_ASSIGN_OR_RETURN(const json::Object decoder, root.get_object("decoder"));
    HEADRACE_RETURN_IF_ERROR(check_decoder(decoder));
  }
  HEADRACE_RETURN_IF_ERROR(read_bpe_model(root, parts.model));
  HEADRACE_RETURN_IF_ERROR(read_added_tokens(root, parts));
  HEADRACE_RETURN_IF_ERROR(read_post_processor(root, parts));
  return parts;
}

}  // namespace headrace::text
