// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <utility>

namespace headrace::text {

Status PreTokenizer::split(std::string_view text, Words& words) const {
  words.pieces.clear();
  words.owned.clear();
  if (!text.empty()) words.pieces.push_back(text);
  for (const auto& splitter : splitters_) {
    Pieces parts;
    for (const std::string_view piece : words.pieces) {
      if (!piece.empty()) HEADRACE_RETURN_IF_ERROR(splitter->split(piece, parts));
    }
    words.pieces = std::move(parts);
  }
  if (add_prefix_space_) {
    for (std::string_view& piece : words.pieces) {
      if (piece.empty() || piece.front() == ' ') continue;
      piece = words.owned.emplace_back(" ").append(piece);
    }
  }
  if (gpt2_split_) {
    Pieces parts;
    for (const std::string_view piece : words.pieces) split_gpt2(piece, parts);
    words.pieces = std::move(parts);
  }
  return {};
}

}  // namespace headrace::text
