// SPDX-License-Identifier: Apache-2.0
// Token strings by id and ids by token string. Knows neither merges nor what the strings mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::text {

// Strings by a dense id; ids may be skipped. One allocation holds all characters.
class StringTable {
 public:
  bool contains(int32_t id) const {
    return id >= 0 && id < size() && spans_[static_cast<size_t>(id)].length != kAbsent;
  }
  // Empty for an id that is absent.
  std::string_view get(int32_t id) const {
    if (!contains(id)) return {};
    const Span& span = spans_[static_cast<size_t>(id)];
    return std::string_view(characters_).substr(span.offset, span.length);
  }
  // `id` >= 0, not contained yet. Returns where the characters start.
  size_t add(int32_t id, std::string_view value);
  std::string_view at(size_t offset, size_t length) const {
    return std::string_view(characters_).substr(offset, length);
  }
  // Largest id + 1.
  int32_t size() const { return static_cast<int32_t>(spans_.size()); }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Span {
    size_t offset = 0;
    uint32_t length = kAbsent;
  };
  std::string characters_;
  std::vector<Span> spans_;
};

class Vocabulary {
 public:
  enum class Added { kOk, kDuplicateToken, kDuplicateId };

  void reserve(size_t num_tokens);
  Added add(std::string_view token, int32_t id);
  // −1 if there is no such token.
  int32_t find(std::string_view token) const;
  const StringTable& tokens() const { return tokens_; }
  size_t num_tokens() const { return num_tokens_; }

 private:
  // Holds what a look-up compares, so that it touches the slot and the characters alone.
  struct Slot {
    size_t offset = 0;
    uint32_t length = 0;
    uint32_t hash = 0;
    int32_t id = -1;
  };
  // The slot of `token`, or the free one where it belongs. Never called on an empty table.
  size_t slot_of(std::string_view token, uint32_t hash) const;
  void rehash(size_t num_slots);

  StringTable tokens_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t num_tokens_ = 0;
};

}  // namespace headrace::text
