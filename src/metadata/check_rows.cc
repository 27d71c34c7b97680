// SPDX-License-Identifier: Apache-2.0
// What the scheduler must guarantee of the rows, checked before they are used: a wrong row is
// reported by its number instead of being read as an address.
#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "metadata/arena.h"
#include "metadata/index.h"

namespace headrace::metadata {
namespace {

template <typename... Args>
Status bad_row(int32_t r, fmt::format_string<Args...> format, Args&&... args) {
  return invalid_argument(
      fmt::format("row {}: {}", r, fmt::format(format, std::forward<Args>(args)...)));
}

Status check_row(const Row& row, int32_t r, const Limits& limits, const int32_t* pages) {
  if (row.query_len < 0) return bad_row(r, "query_len is {}: give 0 or more", row.query_len);
  if (row.query_len == 0) return {};  // padding: nothing else of it is read
  if (row.context_len < 0) return bad_row(r, "context_len is {}: give 0 or more", row.context_len);
  if (row.num_drafts < 0) return bad_row(r, "num_drafts is {}: give 0 or more", row.num_drafts);
  if (row.num_drafts > 0 && row.num_drafts != row.query_len - 1) {
    return bad_row(r, "query_len {} with num_drafts {}: a verify row has 1 + num_drafts tokens",
                   row.query_len, row.num_drafts);
  }
  if (row.query_len > kMaxVerifyTokens && row.num_drafts > 0) {
    return bad_row(r, "num_drafts is {}: a verify row has at most {} drafts", row.num_drafts,
                   kMaxVerifyTokens - 1);
  }
  if (row.num_drafts > 0 && row.context_len == 0) {
    return bad_row(r, "num_drafts is {} without context: run the prompt first", row.num_drafts);
  }
  if ((row.flags & kRowSelfAdvance) != 0 && (row.flags & kRowEmit) == 0) {
    return bad_row(r, "kRowSelfAdvance without kRowEmit: the next step has no token to begin with");
  }
  const int64_t seq_len = static_cast<int64_t>(row.context_len) + row.query_len;
  const int64_t capacity = static_cast<int64_t>(limits.max_pages_per_row) * limits.page_size;
  if (seq_len > capacity) {
    return bad_row(r, "context_len {} plus query_len {} passes the {} tokens a row may have",
                   row.context_len, row.query_len, capacity);
  }
  const int32_t needed = pages_for(static_cast<int32_t>(seq_len), limits.page_size);
  if (row.num_pages > limits.max_pages_per_row) {
    return bad_row(r, "num_pages is {}: the page table has {} entries a row", row.num_pages,
                   limits.max_pages_per_row);
  }
  if (row.num_pages < needed) {
    return bad_row(r, "num_pages is {}: {} tokens need {} pages of {}", row.num_pages, seq_len,
                   needed, limits.page_size);
  }
  for (int32_t i = 0; i < needed; ++i) {
    if (pages[i] <= kNullPage) {
      return bad_row(r, "page {} of its table is {}: a used page must be above {}", i, pages[i],
                     kNullPage);
    }
  }
  if (row.initial_slot < 0)
    return bad_row(r, "initial_slot is {}: give 0 or more", row.initial_slot);
  if (row.final_slot < 0) return bad_row(r, "final_slot is {}: give 0 or more", row.final_slot);
  if (row.num_accepted < 0 || row.num_accepted > kMaxVerifyTokens) {
    return bad_row(r, "num_accepted is {}: give 0 to {}", row.num_accepted, kMaxVerifyTokens);
  }
  if (row.num_accepted > 0 && (row.initial_slot == kNullSlot || row.context_len == 0)) {
    return bad_row(r,
                   "num_accepted is {} without a state to start from: context_len is {}, "
                   "initial_slot is {}",
                   row.num_accepted, row.context_len, row.initial_slot);
  }
  return {};
}

Status check_checkpoint(const Checkpoint& checkpoint, int32_t i, const StepInput& input) {
  const int32_t r = checkpoint.row;
  if (r < 0 || r >= *input.num_rows) {
    return invalid_argument(
        fmt::format("checkpoint {}: row is {}: the step has {} rows", i, r, *input.num_rows));
  }
  const Row row = effective_row(input.rows, r, *input.num_rows);
  if (checkpoint.slot <= kNullSlot) {
    return invalid_argument(fmt::format("checkpoint {} of row {}: slot is {}: give a slot above {}",
                                        i, r, checkpoint.slot, kNullSlot));
  }
  if (row_kind(row) == RowKind::kVerify) {
    return invalid_argument(fmt::format(
        "checkpoint {} of row {}: a verify row has no state to keep until drafts are accepted", i,
        r));
  }
  if (checkpoint.position <= row.context_len ||
      checkpoint.position > row.context_len + row.query_len) {
    return invalid_argument(fmt::format(
        "checkpoint {} of row {}: position is {}: the step brings the row from {} to {}", i, r,
        checkpoint.position, row.context_len, row.context_len + row.query_len));
  }
  if (checkpoint.position % kChunkTokens != 0) {
    return invalid_argument(
        fmt::format("checkpoint {} of row {}: position is {}: give a multiple of {}", i, r,
                    checkpoint.position, kChunkTokens));
  }
  return {};
}

Status slot_written_twice(int32_t slot) {
  return invalid_argument(
      fmt::format("slot {} is written by two rows or checkpoints: give each its own", slot));
}

// Rows run in no particular order: who reads a slot that another writes, or writes it too, gets
// what the threads decide.
Status check_written_slots(const StepInput& input) {
  std::unordered_map<int32_t, int32_t> writers;  // slot → row; −1 for a checkpoint
  for (int32_t r = 0; r < *input.num_rows; ++r) {
    const Row row = effective_row(input.rows, r, *input.num_rows);
    if (row.final_slot != kNullSlot && !writers.emplace(row.final_slot, r).second) {
      return slot_written_twice(row.final_slot);
    }
  }
  for (int32_t i = 0; i < *input.num_checkpoints; ++i) {
    const int32_t slot = input.checkpoints[i].slot;
    if (!writers.emplace(slot, -1).second) return slot_written_twice(slot);
  }
  for (int32_t r = 0; r < *input.num_rows; ++r) {
    const Row row = effective_row(input.rows, r, *input.num_rows);
    if (row.initial_slot == kNullSlot) continue;
    const auto writer = writers.find(row.initial_slot);
    if (writer != writers.end() && writer->second != r) {
      return invalid_argument(fmt::format(
          "slot {} is read by row {} and written by another row or checkpoint: use another slot",
          row.initial_slot, r));
    }
  }
  return {};
}

}  // namespace

Status check_rows(const StepArena& arena) {
  const Limits& limits = arena.limits();
  const StepInput& input = arena.input();
  const int32_t num_rows = *input.num_rows;
  if (num_rows < 0 || num_rows > limits.max_rows) {
    return invalid_argument(
        fmt::format("num_rows is {}: the arena holds {}", num_rows, limits.max_rows));
  }
  if (*input.padded_rows < num_rows || *input.padded_rows > limits.max_rows) {
    return invalid_argument(fmt::format("padded_rows is {}: give {} (num_rows) to {} (max_rows)",
                                        *input.padded_rows, num_rows, limits.max_rows));
  }
  int64_t num_tokens = 0;
  for (int32_t r = 0; r < num_rows; ++r) {
    const int32_t* pages = input.page_table + static_cast<int64_t>(r) * limits.max_pages_per_row;
    HEADRACE_RETURN_IF_ERROR(check_row(input.rows[r], r, limits, pages));
    num_tokens += input.rows[r].query_len;
  }
  if (num_tokens > limits.max_tokens) {
    return invalid_argument(
        fmt::format("the rows bring {} tokens: the arena holds {}", num_tokens, limits.max_tokens));
  }
  if (*input.num_checkpoints < 0 || *input.num_checkpoints > limits.max_checkpoints) {
    return invalid_argument(fmt::format("num_checkpoints is {}: the arena holds {}",
                                        *input.num_checkpoints, limits.max_checkpoints));
  }
  for (int32_t i = 0; i < *input.num_checkpoints; ++i) {
    HEADRACE_RETURN_IF_ERROR(check_checkpoint(input.checkpoints[i], i, input));
  }
  return check_written_slots(input);
}

}  // namespace headrace::metadata
