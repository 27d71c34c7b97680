// SPDX-License-Identifier: Apache-2.0
// Finds tokens that stand for themselves in a text ("<|im_end|>") before any other splitting.
// Knows nothing of merges or normalisation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headrace::text {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  // matches only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // is looked for in the normalised text
  bool special = false;
};

// A piece of text, or (id >= 0) an added token that was found, with no text.
struct Segment {
  std::string_view text;
  int32_t id = -1;
};

class AddedTokenMatcher {
 public:
  // `content` of each is what is looked for. Of two equal ones the first counts.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  // Appends the segments of `text` in order. Matches are leftmost, then longest, without overlap;
  // one that must not count (`skip_special`, `single_word`) still uses up its characters.
  void split(std::string_view text, bool skip_special, std::vector<Segment>& segments) const;

 private:
  // Index of the longest token that starts at `text[offset]`, or −1.
  int32_t longest_match(std::string_view text, size_t offset) const;

  std::vector<AddedToken> tokens_;
  // A trie: node << 8 | byte → node, node 0 is the root.
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> token_of_node_;
  std::array<bool, 256> starts_token_{};
};

}  // namespace headrace::text
