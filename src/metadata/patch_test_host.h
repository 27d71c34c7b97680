// SPDX-License-Identifier: Apache-2.0
// A host for tests of the patch ring: sequences come and go at random through a PatchWriter, and
// pages and slots change hands as soon as they may. One call of act() is one small action, so that
// the device can be let in between any two. For what the device emitted, check_emitted() says
// whether each sequence said what it must.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "metadata/patch_rules.h"
#include "metadata/patch_test_model.h"
#include "metadata/patch_writer.h"

namespace headrace::metadata::test_model {

// A token that a row emitted.
struct Emitted {
  int32_t row = 0;
  uint32_t generation = 0;
  int32_t seq_len = 0;
  int32_t token = 0;
};

// What the device tells the host of a row: the generation, and how many tokens it has.
HEADRACE_HOST_DEVICE inline uint64_t progress_of(uint32_t generation, int32_t seq_len) {
  return (static_cast<uint64_t>(generation) << 32) | static_cast<uint32_t>(seq_len);
}

struct TestHostOptions {
  uint32_t seed = 1;
  int32_t num_pages = 24;  // pages 1…
  int32_t num_slots = 8;   // slots 1…
  int32_t max_prompt = 30;
  int32_t max_new = 20;
  // Mistakes that a test must notice.
  bool frees_at_once = false;    // pages and slots are given away before the leave was applied
  bool publishes_first = false;  // the head before the record and its payload
};

class TestHost {
 public:
  struct Sequence {
    std::vector<int32_t> prompt;
    int32_t salt = 0;
    int32_t end_len = 0;
    int32_t row = 0;
    uint32_t generation = 0;
    std::vector<int32_t> pages;
    int32_t slot = 0;
    int32_t num_sent = 0;  // tokens of the prompt
    bool finished = false;
    bool freed = false;
    PatchTicket out;  // 0 as long as it has the row
  };

  // progress [R] is written by the device.
  TestHost(const PatchRing& ring, const Limits& limits, const PatchShape& shape,
           const uint64_t* progress, const TestHostOptions& options)
      : writer_(ring, limits, shape),
        ring_(ring),
        limits_(limits),
        shape_(shape),
        progress_(progress),
        options_(options),
        random_(options.seed),
        rows_(static_cast<size_t>(limits.max_rows), -1) {
    for (int32_t p = options.num_pages; p > 0; --p) free_pages_.push_back(p);
    for (int32_t s = options.num_slots; s > 0; --s) free_slots_.push_back(s);
  }

  PatchWriter& writer() { return writer_; }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  bool idle() const { return stage_ == 0; }  // nothing half written
  int num_full() const { return num_full_; }
  int num_finished() const { return num_finished_; }
  // Owner of the row's generation, or null.
  const Sequence* find(int32_t row, uint32_t generation) const {
    const auto found = by_row_.find({row, generation});
    return found == by_row_.end() ? nullptr : &sequences_[found->second];
  }

  void act() {
    switch (stage_) {
      case 0:
        reap();
        if (choose()) {
          if (options_.publishes_first) store_release_system(&ring_.control->head, ++head_);
          stage_ = 1;
        }
        return;
      case 1:
        writer_.write_payload();
        stage_ = 2;
        return;
      case 2:
        writer_.write_record();
        stage_ = 3;
        return;
      default:
        sent(writer_.publish());
        stage_ = 0;
    }
  }

 private:
  int32_t in(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool one_in(int32_t n) { return in(1, n) == 1; }

  void give_back(Sequence& sequence) {
    free_pages_.insert(free_pages_.end(), sequence.pages.begin(), sequence.pages.end());
    free_slots_.push_back(sequence.slot);
    sequence.freed = true;
  }
  void reap() {
    for (size_t i = 0; i < leaving_.size();) {
      Sequence& sequence = sequences_[leaving_[i]];
      if (options_.frees_at_once || writer_.is_applied(sequence.out)) {
        give_back(sequence);
        leaving_.erase(leaving_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  bool choose() {
    patch_ = {.row = in(0, limits_.max_rows - 1)};
    if (one_in(3)) patch_.apply_at_step = writer_.next_step() + static_cast<uint64_t>(in(0, 2));
    const int64_t owner = rows_[static_cast<size_t>(patch_.row)];
    if (owner < 0) return join();
    Sequence& sequence = sequences_[static_cast<size_t>(owner)];
    const uint64_t progress = load_acquire_system(progress_ + patch_.row);
    const int32_t seq_len =
        (progress >> 32) == sequence.generation ? static_cast<int32_t>(progress & 0xFFFFFFFFu) : 0;
    const bool all_sent = sequence.num_sent == static_cast<int32_t>(sequence.prompt.size());
    sequence.finished = all_sent && sequence.end_len > 0 && seq_len >= sequence.end_len;
    const bool at_end = seq_len >= limits_.max_pages_per_row * limits_.page_size;
    if (sequence.finished || at_end || one_in(40)) {
      if (one_in(2)) return join();
      patch_.kind = PatchKind::kLeave;
      pages_.clear();
      return reserve();
    }
    if (!all_sent) return send_piece(sequence, PatchKind::kSet);
    return !one_in(6) && grant(sequence, seq_len);
  }

  bool join() {
    if (free_slots_.empty()) return false;
    next_ = {};
    next_.salt = in(0, 1 << 20);
    next_.row = patch_.row;
    next_.prompt.resize(static_cast<size_t>(in(1, options_.max_prompt)));
    for (int32_t& token : next_.prompt) token = in(0, 1 << 30);
    const int32_t num_tokens = static_cast<int32_t>(next_.prompt.size());
    const int32_t most = limits_.max_pages_per_row * limits_.page_size;
    if (!one_in(4)) next_.end_len = std::min(most, num_tokens + in(0, options_.max_new));
    next_.slot = free_slots_.back();
    return send_piece(next_, PatchKind::kJoin);
  }

  bool send_piece(Sequence& sequence, PatchKind kind) {
    const int32_t left = static_cast<int32_t>(sequence.prompt.size()) - sequence.num_sent;
    const int32_t count = std::min({left, shape_.max_set_tokens, one_in(2) ? left : in(1, 6)});
    patch_.kind = kind;
    patch_.tokens =
        std::span<const int32_t>(sequence.prompt)
            .subspan(static_cast<size_t>(sequence.num_sent), static_cast<size_t>(count));
    patch_.fields = {.context_len = sequence.num_sent,
                     .flags = count == left ? uint32_t{kRowEmit | kRowSelfAdvance} : 0u,
                     .initial_slot = sequence.num_sent > 0 ? sequence.slot : 0,
                     .final_slot = sequence.slot};
    const int32_t end = sequence.num_sent + count;
    const int32_t pages = count == left && one_in(2) ? pages_to_grant(end, 0, limits_.page_size)
                                                     : pages_for(end, limits_.page_size);
    set_blob(sequence);
    return take_pages(sequence, pages) && reserve();
  }

  bool grant(const Sequence& sequence, int32_t seq_len) {
    const int32_t known = std::max(seq_len, static_cast<int32_t>(sequence.prompt.size()));
    if (!take_pages(sequence, pages_to_grant(known, 0, limits_.page_size, in(2, 5)))) return false;
    if (one_in(2)) set_blob(sequence);
    return !pages_.empty() && reserve();
  }

  void set_blob(const Sequence& sequence) {
    blob_ = {sequence.salt, sequence.end_len};
    patch_.blob = blob_;
  }
  // Chooses pages so that the sequence has `wanted`; they stay in the pool until reserve().
  bool take_pages(const Sequence& sequence, int32_t wanted) {
    const int32_t more =
        std::min(wanted, limits_.max_pages_per_row) - static_cast<int32_t>(sequence.pages.size());
    if (more > static_cast<int32_t>(free_pages_.size())) return false;
    pages_.assign(free_pages_.end() - std::max(more, 0), free_pages_.end());
    patch_.pages = pages_;
    return true;
  }

  bool reserve() {
    const Status status = writer_.reserve(patch_);
    if (!status.ok()) {
      if (status.code() == StatusCode::kResourceExhausted) {
        ++num_full_;
      } else {
        error_ = status.message();
      }
      return false;
    }
    free_pages_.resize(free_pages_.size() - pages_.size());
    if (patch_.kind == PatchKind::kJoin) free_slots_.pop_back();
    return true;
  }

  void sent(const PatchTicket& ticket) {
    head_ = ticket.record;
    int64_t& owner = rows_[static_cast<size_t>(patch_.row)];
    if (owner >= 0 && (patch_.kind == PatchKind::kJoin || patch_.kind == PatchKind::kLeave)) {
      Sequence& gone = sequences_[static_cast<size_t>(owner)];
      gone.out = ticket;
      num_finished_ += gone.finished ? 1 : 0;
      leaving_.push_back(static_cast<size_t>(owner));
      owner = -1;
    }
    if (patch_.kind == PatchKind::kLeave) return;
    if (patch_.kind == PatchKind::kJoin) {
      next_.generation = writer_.generation(patch_.row);
      owner = static_cast<int64_t>(sequences_.size());
      by_row_[{next_.row, next_.generation}] = sequences_.size();
      sequences_.push_back(next_);
    }
    Sequence& sequence = sequences_[static_cast<size_t>(owner)];
    sequence.num_sent += static_cast<int32_t>(patch_.tokens.size());
    sequence.pages.insert(sequence.pages.end(), pages_.begin(), pages_.end());
  }

 public:
  const std::string& error() const { return error_; }

 private:
  PatchWriter writer_;
  PatchRing ring_;
  Limits limits_;
  PatchShape shape_;
  const uint64_t* progress_;
  TestHostOptions options_;
  std::mt19937 random_;

  int stage_ = 0;
  uint64_t head_ = 0;
  Patch patch_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> blob_;
  Sequence next_;

  std::vector<Sequence> sequences_;
  std::map<std::pair<int32_t, uint32_t>, size_t> by_row_;
  std::vector<int64_t> rows_;    // [R] index of the sequence that has the row; −1 = nobody
  std::vector<size_t> leaving_;  // left, not yet freed
  std::vector<int32_t> free_pages_;
  std::vector<int32_t> free_slots_;
  int num_full_ = 0;
  int num_finished_ = 0;
  std::string error_;
};

// Empty when each sequence emitted what it must: its own tokens in order from its first one on, and
// all of them if it came to its end.
inline std::string check_emitted(const TestHost& host, const std::vector<Emitted>& emitted) {
  std::map<std::pair<int32_t, uint32_t>, std::vector<Emitted>> by_row;
  for (const Emitted& e : emitted) by_row[{e.row, e.generation}].push_back(e);
  for (const auto& [key, tokens] : by_row) {
    const std::string who =
        "row " + std::to_string(key.first) + " generation " + std::to_string(key.second);
    const TestHost::Sequence* sequence = host.find(key.first, key.second);
    if (sequence == nullptr) return who + " emitted, and nobody has it";
    const std::vector<int32_t> expected =
        expected_tokens(sequence->prompt, sequence->salt, static_cast<int32_t>(tokens.size()));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int32_t seq_len = static_cast<int32_t>(sequence->prompt.size() + i);
      if (tokens[i].seq_len != seq_len) return who + " skipped or repeated a token";
      if (tokens[i].token != expected[i]) return who + " token " + std::to_string(i) + " is wrong";
      if (sequence->end_len > 0 && seq_len > sequence->end_len) return who + " passed its end";
    }
  }
  for (const TestHost::Sequence& sequence : host.sequences()) {
    if (!sequence.finished) continue;
    const size_t wanted = static_cast<size_t>(sequence.end_len) - sequence.prompt.size() + 1;
    const auto found = by_row.find({sequence.row, sequence.generation});
    if (found == by_row.end() || found->second.size() != wanted) {
      return "row " + std::to_string(sequence.row) + " generation " +
             std::to_string(sequence.generation) + " ended with too few tokens";
    }
  }
  return "";
}

}  // namespace headrace::metadata::test_model
