// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t before = previous_code_point_start(text, begin);
    if (is_word(next_code_point(text, before))) return false;
  }
  return end >= text.size() || !is_word(next_code_point(text, end));
}

size_t skip_spaces_back(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const size_t start = previous_code_point_start(text, end);
    size_t cursor = start;
    if (!is_space(next_code_point(text, cursor))) break;
    end = start;
  }
  return end;
}

size_t skip_spaces(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t after = begin;
    if (!is_space(next_code_point(text, after))) break;
    begin = after;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  token_of_node_.push_back(-1);
  for (size_t index = 0; index < tokens_.size(); ++index) {
    const std::string& content = tokens_[index].content;
    if (content.empty()) continue;
    uint32_t node = 0;
    for (const char c : content) {
      const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
      const auto [edge, is_new] =
          edges_.try_emplace(key, static_cast<uint32_t>(token_of_node_.size()));
      if (is_new) token_of_node_.push_back(-1);
      node = edge->second;
    }
    if (token_of_node_[node] < 0) token_of_node_[node] = static_cast<int32_t>(index);
    starts_token_[static_cast<uint8_t>(content[0])] = true;
  }
}

int32_t AddedTokenMatcher::longest_match(std::string_view text, size_t offset) const {
  int32_t longest = -1;
  uint32_t node = 0;
  for (size_t i = offset; i < text.size(); ++i) {
    const auto edge = edges_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_of_node_[node] >= 0) longest = token_of_node_[node];
  }
  return longest;
}

void AddedTokenMatcher::split(std::string_view text, bool skip_special,
                              std::vector<Segment>& segments) const {
  size_t done = 0;  // the text before it is in `segments`
  size_t i = 0;
  while (i < text.size()) {
    const int32_t index =
        starts_token_[static_cast<uint8_t>(text[i])] ? longest_match(text, i) : -1;
    if (index < 0) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = i;
    size_t end = i + token.content.size();
    i = end;
    if (skip_special && token.special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(skip_spaces_back(text, begin, done), done);
    if (token.rstrip) end = skip_spaces(text, end);
    if (done < begin) segments.push_back({text.substr(done, begin - done), -1});
    // A token that stands in the spaces which the last one took counts, unless it takes spaces from
    // the left as well: then nothing is left of it.
    if (begin < end) segments.push_back({{}, token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), -1});
}

}  // namespace headrace::text
