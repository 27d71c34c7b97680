// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "text/byte_level.h"

namespace headrace::text {

void MergeTable::reserve(size_t num_merges) {
  size_t num_slots = 16;
  while (num_slots < 2 * num_merges) num_slots *= 2;
  slots_.assign(num_slots, Slot{});
}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  uint64_t mixed = key * 0x9E3779B97F4A7C15u;
  mixed ^= mixed >> 32;
  size_t i = static_cast<size_t>(mixed) & mask;
  while (slots_[i].merge.rank != kNoRank && slots_[i].key != key) i = (i + 1) & mask;
  return i;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

void BpeEncoder::start_symbols(std::string_view word) {
  symbols_.clear();
  bool last_was_unknown = false;
  for (const char c : word) {
    int32_t id = model_.byte_ids[static_cast<uint8_t>(c)];
    const bool unknown = id < 0;
    if (unknown) id = model_.unknown_id;
    const bool skip = id < 0 || (unknown && last_was_unknown && model_.fuse_unknown);
    last_was_unknown = unknown;
    if (skip) continue;
    const auto position = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({id, position - 1, position + 1, {}});
  }
  if (!symbols_.empty()) symbols_.back().next = -1;
}

void BpeEncoder::look_up_merge(int32_t left) {
  Symbol& symbol = symbols_[static_cast<size_t>(left)];
  symbol.merge = {};
  if (symbol.next < 0) return;
  symbol.merge = model_.merges.find(symbol.id, symbols_[static_cast<size_t>(symbol.next)].id);
  if (symbol.merge.rank == MergeTable::kNoRank) return;
  queue_.push_back(static_cast<uint64_t>(symbol.merge.rank) << 32 | static_cast<uint32_t>(left));
}

void BpeEncoder::merge_symbols() {
  const std::greater<uint64_t> lowest_first;
  queue_.clear();
  for (size_t i = 0; i < symbols_.size(); ++i) look_up_merge(static_cast<int32_t>(i));
  std::make_heap(queue_.begin(), queue_.end(), lowest_first);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), lowest_first);
    const uint64_t top = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<int32_t>(top & UINT32_MAX);
    Symbol& symbol = symbols_[static_cast<size_t>(left)];
    // The pair has changed since it was queued; its new merge has an entry of its own.
    if (symbol.merge.rank != static_cast<uint32_t>(top >> 32)) continue;

    Symbol& absorbed = symbols_[static_cast<size_t>(symbol.next)];
    symbol.id = symbol.merge.id;
    symbol.next = absorbed.next;
    absorbed.merge = {};
    if (symbol.next >= 0) symbols_[static_cast<size_t>(symbol.next)].previous = left;

    const auto queue_pair = [&](int32_t position) {
      const size_t before = queue_.size();
      look_up_merge(position);
      if (queue_.size() != before) std::push_heap(queue_.begin(), queue_.end(), lowest_first);
    };
    queue_pair(left);
    if (symbol.previous >= 0) queue_pair(symbol.previous);
  }
}

void BpeEncoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  if (word.empty()) return;
  if (model_.ignore_merges) {
    spelling_.clear();
    append_byte_chars(word, spelling_);
    const int32_t id = model_.vocabulary.find(spelling_);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  start_symbols(word);
  if (symbols_.empty()) return;
  merge_symbols();
  // The first symbol is never absorbed: merging keeps the left one.
  for (int32_t i = 0; i >= 0; i = symbols_[static_cast<size_t>(i)].next) {
    ids.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace headrace::text
