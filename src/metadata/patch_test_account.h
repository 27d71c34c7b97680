// SPDX-License-Identifier: Apache-2.0
// For the test of all orders of events: a host that writes the records it is told to, right or
// wrong, and a naive account of what they must do, which keeps whole records in a list and shares
// no code with the ring. Two rows, pages of one token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metadata/patch_test_world.h"

namespace headrace::metadata::test_model {

inline constexpr int32_t kRows = 2;
inline constexpr int32_t kPages = 4;
inline constexpr int32_t kSetTokens = 3;
inline constexpr uint32_t kRunning = kRowEmit | kRowSelfAdvance;

struct Sent {
  PatchKind kind = PatchKind::kGrant;
  int32_t row = 0;
  uint32_t generation = 1;
  uint64_t step = 2;
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> pages = {};
  int32_t context_len = 0;
  uint32_t flags = kRunning;
};

// Writes what it is told, right or wrong, and waits for room.
class Script {
 public:
  Script(const PatchRing& ring, const PatchShape& shape, const std::vector<Sent>& all)
      : ring_(ring), shape_(shape), all_(all) {}

  uint64_t num_sent() const { return num_sent_; }
  bool can_act() const {
    if (num_sent_ == all_.size()) return false;
    if (written_) return true;
    const uint64_t consumed = load_acquire_system(&ring_.control->consumed);
    const uint64_t freed = consumed == 0 ? 0 : ends_[consumed - 1];
    return num_sent_ - consumed < static_cast<uint64_t>(shape_.record_capacity) &&
           words_ + words_of(all_[num_sent_]) - freed <=
               static_cast<uint64_t>(shape_.word_capacity);
  }
  void act() {
    if (written_) {
      written_ = false;
      store_release_system(&ring_.control->head, ++num_sent_);
      return;
    }
    const Sent& sent = all_[num_sent_];
    uint64_t at = words_;
    for (const std::vector<int32_t>* values : {&sent.tokens, &sent.pages}) {
      for (int32_t value : *values) {
        ring_.words[at++ % static_cast<uint64_t>(shape_.word_capacity)] = value;
      }
    }
    tokens_ += sent.tokens.size();
    PatchRecord record{.apply_at_step = sent.step,
                       .word_begin = words_,
                       .token_end = tokens_,
                       .previous = 0,
                       .row = sent.row,
                       .generation = sent.generation,
                       .kind = sent.kind,
                       .num_blob_words = 0,
                       .fields = {.query_len = static_cast<int32_t>(sent.tokens.size()),
                                  .context_len = sent.context_len,
                                  .flags = sent.flags,
                                  .num_pages = static_cast<int32_t>(sent.pages.size())}};
    for (uint64_t i = 0; i < num_sent_; ++i) {
      if (all_[i].row == sent.row) record.previous = i + 1;
    }
    const uint64_t number = num_sent_ + 1;
    ring_.records[number % static_cast<uint64_t>(shape_.record_capacity)] = record;
    words_ += words_of(sent);
    ends_.push_back(words_);
    written_ = true;
  }

 private:
  static uint64_t words_of(const Sent& sent) {
    return (sent.tokens.size() + sent.pages.size() + 3) / 4 * 4;
  }
  PatchRing ring_;
  PatchShape shape_;
  const std::vector<Sent>& all_;
  uint64_t num_sent_ = 0;
  uint64_t words_ = 0;
  uint64_t tokens_ = 0;
  bool written_ = false;
  std::vector<uint64_t> ends_;
};

// What the rules say, written down in the plainest way. Pages are of one token.
class Account {
 public:
  explicit Account(const std::vector<Sent>& all) : all_(all), done_(all.size(), false) {}

  void step(uint64_t now) {
    for (int32_t r = 0; r < kRows; ++r) {
      RowAccount& row = rows_[r];
      row.fresh = false;
      // A row that ran with its own tokens goes on; a piece does not.
      if (row.runs) {
        row.context += row.query;
        row.query = 1;
        row.alive = row.going;
      }
      for (size_t i = 0; i < visible_; ++i) {
        if (all_[i].row != r || done_[i]) continue;
        if (!take(all_[i], i, now, row)) break;
        done_[i] = true;
      }
      row.runs = row.alive && row.context + row.query <= static_cast<int32_t>(row.pages.size());
      if (row.alive && !row.runs) ++stalled;
    }
  }
  void see(uint64_t num_sent) { seen_ = num_sent; }
  void publish() {
    visible_ = seen_;
    first_ = 0;
    while (first_ < visible_ && done_[first_]) ++first_;
  }
  uint64_t consumed() const { return first_; }

  // Empty when the world's rows are these.
  std::string mismatch(const World& world) const {
    for (int32_t r = 0; r < kRows; ++r) {
      const RowAccount& row = rows_[r];
      const std::string who = "row " + std::to_string(r) + ": ";
      if (world.view().query_len[r] != (row.runs ? row.query : 0)) return who + "query";
      if (!row.runs) continue;
      if (world.view().context_len[r] != row.context) return who + "context";
      if (row.fresh && world.tokens_of(r) != row.tokens) return who + "tokens";
      if (world.params().queue.generation[r] != row.generation) return who + "generation";
      const int32_t* table = world.arena().input().page_table + r * kPages;
      const int32_t num_pages = world.arena().input().rows[r].num_pages;
      if (std::vector<int32_t>(table, table + num_pages) != row.pages) return who + "pages";
    }
    return "";
  }

  uint64_t late = 0, stale = 0, rejected = 0, stalled = 0;

 private:
  struct RowAccount {
    bool alive = false;
    bool going = false;  // after this step
    bool runs = false;
    bool fresh = false;  // its tokens of this step came with a record
    uint32_t generation = 0;
    int32_t context = 0;
    int32_t query = 0;
    std::vector<int32_t> tokens;
    std::vector<int32_t> pages;
  };

  // False: it has to wait.
  bool take(const Sent& sent, size_t i, uint64_t now, RowAccount& row) {
    if (now < sent.step) return false;
    const bool join = sent.kind == PatchKind::kJoin;
    if ((join || sent.kind == PatchKind::kSet) && i != first_) {
      size_t tokens = 0;
      for (size_t k = first_; k <= i; ++k) tokens += all_[k].tokens.size();
      if (row.fresh || tokens > static_cast<size_t>(kSetTokens)) return false;
    }
    if (join ? sent.generation <= row.generation : sent.generation != row.generation) {
      ++stale;
      return true;
    }
    std::vector<int32_t> pages = join ? std::vector<int32_t>() : row.pages;
    pages.insert(pages.end(), sent.pages.begin(), sent.pages.end());
    const size_t needed = static_cast<size_t>(sent.context_len) + sent.tokens.size();
    if (pages.size() > static_cast<size_t>(kPages) ||
        (!sent.tokens.empty() && needed > pages.size())) {
      ++rejected;
      return true;
    }
    if (now > sent.step) ++late;
    if (sent.kind == PatchKind::kLeave) {
      row = {};
      row.generation = sent.generation + 1;
      return true;
    }
    row.pages = pages;
    if (sent.kind == PatchKind::kGrant) return true;
    row.alive = true;
    row.going = (sent.flags & kRowSelfAdvance) != 0;
    row.fresh = true;
    row.generation = sent.generation;
    row.context = sent.context_len;
    row.tokens = sent.tokens;
    row.query = static_cast<int32_t>(sent.tokens.size());
    return true;
  }

  const std::vector<Sent>& all_;
  std::vector<bool> done_;
  size_t seen_ = 0;     // when the head was read
  size_t visible_ = 0;  // to the step
  size_t first_ = 0;    // first that is not done with
  RowAccount rows_[kRows];
};

}  // namespace headrace::metadata::test_model
