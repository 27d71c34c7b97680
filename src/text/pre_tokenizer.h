// SPDX-License-Identifier: Apache-2.0
// Cuts a stretch of text into the words that byte-pair merging works on. Knows no file format and
// no tokens.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.h"
#include "text/splitter.h"

namespace headrace::text {

// Words, and the characters of those that are not part of the text itself.
struct Words {
  Pieces pieces;
  std::deque<std::string> owned;
};

class PreTokenizer {
 public:
  void add_splitter(std::unique_ptr<const Splitter> splitter) {
    splitters_.push_back(std::move(splitter));
  }
  // What a ByteLevel step does to every piece, after the splitters.
  void set_add_prefix_space(bool add) { add_prefix_space_ = add; }
  void set_gpt2_split(bool split) { gpt2_split_ = split; }

  // Replaces `words`; its pieces point into `text` and into itself.
  Status split(std::string_view text, Words& words) const;

 private:
  std::vector<std::unique_ptr<const Splitter>> splitters_;
  bool add_prefix_space_ = false;
  bool gpt2_split_ = false;
};

}  // namespace headrace::text
