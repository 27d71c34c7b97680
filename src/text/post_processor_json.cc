// SPDX-License-Identifier: Apache-2.0
// The "post_processor" section of tokenizer.json: the ids around a text, e.g. BOS.
#include <fmt/format.h>

#include <algorithm>

#include "text/tokenizer_json.h"

namespace headrace::text {
namespace {

bool is_token(const TokenizerParts& parts, int32_t id) {
  return parts.model.vocabulary.tokens().contains(id) ||
         std::any_of(parts.added_tokens.begin(), parts.added_tokens.end(),
                     [id](const AddedToken& token) { return token.id == id; });
}

// Appends the ids that the processor's special_tokens give to {"SpecialToken": {"id": NAME}}.
Status append_special(const json::Object& processor, const json::Object& special,
                      const TokenizerParts& parts, std::vector<int32_t>& ids) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view name, special.get_string("id"));
  HEADRACE_ASSIGN_OR_RETURN(const json::Object special_tokens,
                            processor.get_object("special_tokens"));
  HEADRACE_ASSIGN_OR_RETURN(const json::Object entry, special_tokens.get_object(name));
  HEADRACE_ASSIGN_OR_RETURN(const json::array list, entry.get_array("ids"));
  for (const json::element element : list) {
    HEADRACE_ASSIGN_OR_RETURN(const int32_t id, read_token_id(element, entry.path("ids")));
    if (!is_token(parts, id)) {
      return invalid_data(
          fmt::format("\"{}\" has id {}, which is no token of the file", entry.path("ids"), id));
    }
    ids.push_back(id);
  }
  return {};
}

Status read_template(const json::Object& processor, TokenizerParts& parts) {
  HEADRACE_ASSIGN_OR_RETURN(const json::array single, processor.get_array("single"));
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool seen_text = false;
  for (const json::element element : single) {
    HEADRACE_ASSIGN_OR_RETURN(const json::Object piece,
                              json::as_object(element, processor.path("single[]")));
    if (piece.has("SpecialToken")) {
      HEADRACE_ASSIGN_OR_RETURN(const json::Object special, piece.get_object("SpecialToken"));
      HEADRACE_RETURN_IF_ERROR(
          append_special(processor, special, parts, seen_text ? after : before));
      continue;
    }
    if (!piece.has("Sequence") || seen_text) {
      return unsupported(fmt::format("\"{}\" must hold special tokens and the text once",
                                     processor.path("single")));
    }
    seen_text = true;
  }
  if (!seen_text) {
    return invalid_data(fmt::format("\"{}\" leaves out the text", processor.path("single")));
  }
  // A later processor wraps what an earlier one made.
  parts.prefix_ids.insert(parts.prefix_ids.begin(), before.begin(), before.end());
  parts.suffix_ids.insert(parts.suffix_ids.end(), after.begin(), after.end());
  return {};
}

Status read_processor(const json::Object& processor, TokenizerParts& parts) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view type, processor.get_string("type"));
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") return read_template(processor, parts);
  if (type == "Sequence") {
    HEADRACE_ASSIGN_OR_RETURN(const json::array steps, processor.get_array("processors"));
    for (const json::element element : steps) {
      HEADRACE_ASSIGN_OR_RETURN(const json::Object inner,
                                json::as_object(element, processor.path("processors[]")));
      HEADRACE_RETURN_IF_ERROR(read_processor(inner, parts));
    }
    return {};
  }
  return unsupported(
      fmt::format("post-processor \"{}\" is not supported; known are TemplateProcessing, ByteLevel "
                  "and Sequence",
                  type));
}

}  // namespace

Status read_post_processor(const json::Object& root, TokenizerParts& parts) {
  if (!root.has("post_processor")) return {};
  HEADRACE_ASSIGN_OR_RETURN(const json::Object processor, root.get_object("post_processor"));
  return read_processor(processor, parts);
}

}  // namespace headrace::text
