// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <functional>
#include <utility>

namespace headrace::text {
namespace {

uint32_t hash_of(std::string_view token) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(token));
}

}  // namespace

size_t StringTable::add(int32_t id, std::string_view value) {
  if (id >= size()) spans_.resize(static_cast<size_t>(id) + 1);
  const size_t offset = characters_.size();
  spans_[static_cast<size_t>(id)] = {offset, static_cast<uint32_t>(value.size())};
  characters_.append(value);
  return offset;
}

void Vocabulary::reserve(size_t num_tokens) {
  size_t num_slots = 16;
  while (num_slots < 2 * num_tokens) num_slots *= 2;
  if (num_slots > slots_.size()) rehash(num_slots);
}

void Vocabulary::rehash(size_t num_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (slot.id >= 0) slots_[slot_of(tokens_.at(slot.offset, slot.length), slot.hash)] = slot;
  }
}

size_t Vocabulary::slot_of(std::string_view token, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].id >= 0 &&
         (slots_[i].hash != hash || tokens_.at(slots_[i].offset, slots_[i].length) != token)) {
    i = (i + 1) & mask;
  }
  return i;
}

Vocabulary::Added Vocabulary::add(std::string_view token, int32_t id) {
  reserve(num_tokens_ + 1);
  const uint32_t hash = hash_of(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (slot.id >= 0) return Added::kDuplicateToken;
  if (tokens_.contains(id)) return Added::kDuplicateId;
  slot = {tokens_.add(id, token), static_cast<uint32_t>(token.size()), hash, id};
  ++num_tokens_;
  return Added::kOk;
}

int32_t Vocabulary::find(std::string_view token) const {
  return slots_.empty() ? -1 : slots_[slot_of(token, hash_of(token))].id;
}

}  // namespace headrace::text
