// SPDX-License-Identifier: Apache-2.0
// Index arithmetic on one row, token, page or chunk: the one place where each rule is written.
// Pure functions of their arguments; nothing here knows of arrays of a step (derive.h) or of the
// split of decode work (split.h).
#pragma once

#include <cstdint>

#include "metadata/host_device.h"
#include "metadata/row.h"

namespace headrace::metadata {

HEADRACE_HOST_DEVICE constexpr int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
HEADRACE_HOST_DEVICE constexpr int32_t max_i32(int32_t a, int32_t b) { return a < b ? b : a; }

// ceil(a / b) for a ≥ 0, b > 0; never overflows.
HEADRACE_HOST_DEVICE constexpr int32_t ceil_div(int32_t a, int32_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// Pages that `len` tokens take; none for none.
HEADRACE_HOST_DEVICE constexpr int32_t pages_for(int32_t len, int32_t page_size) {
  return ceil_div(len, page_size);
}

// Tokens in the last page, 1…page_size; 0 for an empty sequence. Written with (len − 1) because the
// shorter form with a negative modulus is right only where the remainder rounds to the floor.
HEADRACE_HOST_DEVICE constexpr int32_t last_page_len(int32_t len, int32_t page_size) {
  return len == 0 ? 0 : (len - 1) % page_size + 1;
}

// Place of a position in the cache, in tokens from its start. 64-bit: page · page_size passes 2³¹.
HEADRACE_HOST_DEVICE constexpr int64_t slot_mapping_of(int32_t page, int32_t position,
                                                       int32_t page_size) {
  return static_cast<int64_t>(page) * page_size + position % page_size;
}

HEADRACE_HOST_DEVICE constexpr RowKind row_kind(const Row& row) {
  if (row.query_len <= 0) return RowKind::kPadding;
  const bool resumes = row.context_len > 0 || (row.flags & kRowStateless) != 0;
  if (resumes && row.query_len == 1 + row.num_drafts) {
    return row.num_drafts > 0 ? RowKind::kVerify : RowKind::kDecode;
  }
  return RowKind::kPrefill;
}

// The row as the step sees it: a padding row is all zero, whatever its other fields hold, and so is
// every row past the rows in use. A row without context starts from zeros and has nothing to
// replay: its slot still holds the state of whoever had it before.
HEADRACE_HOST_DEVICE constexpr Row effective_row(const Row* rows, int32_t r, int32_t num_rows) {
  if (r >= num_rows || rows[r].query_len <= 0) return Row{};
  Row row = rows[r];
  if (row.context_len == 0) row.initial_slot = kNullSlot;
  if (row.initial_slot == kNullSlot) row.num_accepted = 0;
  return row;
}

// Tokens of the row whose logits are wanted. They are its last ones.
HEADRACE_HOST_DEVICE constexpr int32_t num_logit_tokens(const Row& row) {
  if (row.query_len <= 0 || (row.flags & kRowEmit) == 0) return 0;
  return row_kind(row) == RowKind::kVerify ? row.query_len : 1;
}

// Chunks have edges at absolute multiples of kChunkTokens, so that a scan that is resumed anywhere
// has the same grid. Chunk i of a row that brings positions [context_len, context_len + query_len):
HEADRACE_HOST_DEVICE constexpr int32_t num_chunks(int32_t context_len, int32_t query_len) {
  return query_len == 0
             ? 0
             : ceil_div(context_len + query_len, kChunkTokens) - context_len / kChunkTokens;
}
HEADRACE_HOST_DEVICE constexpr int32_t chunk_begin(int32_t context_len, int32_t i) {
  return i == 0 ? context_len : (context_len / kChunkTokens + i) * kChunkTokens;
}
HEADRACE_HOST_DEVICE constexpr int32_t chunk_end(int32_t context_len, int32_t query_len,
                                                 int32_t i) {
  const int32_t rest = context_len + query_len - chunk_begin(context_len, i);
  const int32_t room = kChunkTokens - chunk_begin(context_len, i) % kChunkTokens;
  return chunk_begin(context_len, i) + min_i32(rest, room);
}

// Most chunks that num_tokens prefill tokens in at most num_rows rows can make: the first token of
// a row makes one, its second another when an edge lies between them, then one each 64 tokens.
HEADRACE_HOST_DEVICE constexpr int32_t max_chunks_of(int32_t num_tokens, int32_t num_rows) {
  const int32_t rows = min_i32(num_tokens, num_rows);
  if (num_tokens - rows <= rows) return num_tokens;
  return 2 * rows + (num_tokens - 2 * rows) / kChunkTokens;
}

// The row that owns item `value`: the largest i with starts[i] ≤ value, by binary search in the
// prefix sums starts[0…n], where starts[0] ≤ value < starts[n]. Rows without items are skipped.
HEADRACE_HOST_DEVICE constexpr int32_t owner_of(const int32_t* starts, int32_t n, int32_t value) {
  int32_t low = 0;
  int32_t high = n;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (starts[middle] <= value) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace headrace::metadata
