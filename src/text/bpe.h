// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging of one word: from bytes to ids by the rank of merges, in O(n log n). Knows
// neither how a text is cut into words nor added tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace headrace::text {

// Ids of a pair of symbols → what it becomes and how early. Open addressing.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNoRank;
    int32_t id = -1;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void reserve(size_t num_merges);
  // The last rank given to a pair counts. At most `reserve`d many.
  void add(int32_t left, int32_t right, Merge merge);
  // rank == kNoRank if the pair does not merge.
  Merge find(int32_t left, int32_t right) const {
    if (slots_.empty()) return {};
    return slots_[slot_of(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

struct BpeModel {
  Vocabulary vocabulary;
  MergeTable merges;
  // A word that is a token is taken as it is, even if no merges lead to it.
  bool ignore_merges = false;
  // Id of each byte; where the vocabulary has none, `unknown_id`, or −1: the byte is left out.
  std::array<int32_t, 256> byte_ids{};
  int32_t unknown_id = -1;
  bool fuse_unknown = false;  // neighbouring unknown bytes become one token
};

// Encodes words one after the other; its buffers are reused, so keep one a thread.
class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeModel& model) : model_(model) {}

  // Appends the ids of `word` (raw bytes, fewer than 2^31) to `ids`.
  void encode(std::string_view word, std::vector<int32_t>& ids);

 private:
  struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
    // The merge with the next symbol, as last looked up.
    MergeTable::Merge merge;
  };

  void start_symbols(std::string_view word);
  void look_up_merge(int32_t left);
  void merge_symbols();

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // min-heap of rank << 32 | left symbol
  std::string spelling_;
};

}  // namespace headrace::text
