// SPDX-License-Identifier: Apache-2.0
// The "pre_tokenizer" section of tokenizer.json.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "text/tokenizer_json.h"

namespace headrace::text {
namespace {

std::optional<SplitBehavior> parse_behavior(std::string_view name) {
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  return std::nullopt;
}

Status read_split(const json::Object& step, PreTokenizer& out) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view name, step.get_string("behavior"));
  const std::optional<SplitBehavior> behavior = parse_behavior(name);
  if (!behavior) {
    return invalid_data(
        fmt::format("\"{}\" is \"{}\"; known are Isolated, Removed, "
                    "MergedWithPrevious, MergedWithNext and Contiguous",
                    step.path("behavior"), name));
  }
  SplitRule rule;
  rule.behavior = *behavior;
  HEADRACE_ASSIGN_OR_RETURN(rule.invert, step.get_bool("invert", false));
  HEADRACE_ASSIGN_OR_RETURN(const json::Object pattern, step.get_object("pattern"));
  if (pattern.has("String")) {
    HEADRACE_ASSIGN_OR_RETURN(const std::string_view literal, pattern.get_string("String"));
    if (literal.empty()) return invalid_data(fmt::format("\"{}\" is empty", pattern.name));
    out.add_splitter(make_literal_splitter(literal, rule));
    return {};
  }
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view regex, pattern.get_string("Regex"));
  HEADRACE_ASSIGN_OR_RETURN(auto splitter, make_regex_splitter(regex, rule));
  out.add_splitter(std::move(splitter));
  return {};
}

Status read_digits(const json::Object& step, PreTokenizer& out) {
  HEADRACE_ASSIGN_OR_RETURN(const bool individual, step.get_bool("individual_digits", false));
  SplitRule rule;
  rule.behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  out.add_splitter(make_digit_splitter(rule));
  return {};
}

Status read_byte_level(const json::Object& step, PreTokenizer& out) {
  HEADRACE_ASSIGN_OR_RETURN(const bool add_prefix_space, step.get_bool("add_prefix_space", true));
  HEADRACE_ASSIGN_OR_RETURN(const bool use_regex, step.get_bool("use_regex", true));
  out.set_add_prefix_space(add_prefix_space);
  out.set_gpt2_split(use_regex);
  return {};
}

Status read_step(const json::Object& step, PreTokenizer& out, bool& byte_level) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view type, step.get_string("type"));
  if (byte_level) {
    return unsupported(fmt::format("pre-tokenizer \"{}\" after ByteLevel is not supported", type));
  }
  if (type == "ByteLevel") {
    byte_level = true;
    return read_byte_level(step, out);
  }
  if (type == "Split") return read_split(step, out);
  if (type == "Digits") return read_digits(step, out);
  if (type == "Sequence") {
    HEADRACE_ASSIGN_OR_RETURN(const json::array steps, step.get_array("pretokenizers"));
    size_t index = 0;
    for (const json::element element : steps) {
      HEADRACE_ASSIGN_OR_RETURN(
          const json::Object inner,
          json::as_object(element, step.path(fmt::format("pretokenizers[{}]", index++))));
      HEADRACE_RETURN_IF_ERROR(read_step(inner, out, byte_level));
    }
    return {};
  }
  return unsupported(fmt::format(
      "pre-tokenizer \"{}\" is not supported; known are ByteLevel, Split, Digits and Sequence",
      type));
}

}  // namespace

Status read_pre_tokenizer(const json::Object& root, PreTokenizer& pre_tokenizer) {
  bool byte_level = false;
  if (root.has("pre_tokenizer")) {
    HEADRACE_ASSIGN_OR_RETURN(const json::Object step, root.get_object("pre_tokenizer"));
    HEADRACE_RETURN_IF_ERROR(read_step(step, pre_tokenizer, byte_level));
  }
  if (!byte_level) {
    return unsupported(
        "the pre-tokenizer has no ByteLevel step: only byte-level BPE is supported, SentencePiece "
        "and Unigram tokenizers are not; use a model with a byte-level tokenizer");
  }
  return {};
}

}  // namespace headrace::text
