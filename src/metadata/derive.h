// SPDX-License-Identifier: Apache-2.0
// How every array of a step follows from its rows, cut into pieces that do not depend on one
// another within a phase. A driver (build.cc: plain loops; cuda/build_kernel.cu: one thread block,
// and others for the page table) runs the phases in this order, with a barrier between two:
//   1. sums_of(row) for every row, scanned: `before` of row r and `total`
//   2. write_row for r in [0, R)                   reads its own sums only
//   3. write_token [0, T), write_chunk [0, C), write_logit [0, T) and
//      partials_of_row [0, R), scanned             read what phase 2 wrote
//      split_worker(w) for w in [0, W)             reads what phase 2 wrote
//   4. write_start of split_partial_start for [0, R), write_counts
//   5. place_partials of the workers               reads split_partial_start
// and at any time write_page_row [0, R), which reads the input only.
// Each array is written to its full size, so that nothing of an earlier step is left.
#pragma once

#include <cstdint>

#include "metadata/arrays.h"
#include "metadata/host_device.h"
#include "metadata/index.h"
#include "metadata/split.h"

namespace headrace::metadata {

// What is summed over rows; before a row (exclusive) or in total.
struct RowSums {
  int32_t tokens = 0;
  int32_t pages = 0;
  int32_t chunks = 0;
  int32_t logits = 0;
  int32_t units = 0;
  int32_t decode_rows = 0;
  int32_t verify_rows = 0;
  int32_t prefill_rows = 0;
  int32_t verify_tokens = 0;
  int32_t prefill_tokens = 0;

  // A decode row has one token.
  HEADRACE_HOST_DEVICE int32_t decode_tokens() const { return decode_rows; }

  HEADRACE_HOST_DEVICE void add(const RowSums& other) {
    tokens += other.tokens;
    pages += other.pages;
    chunks += other.chunks;
    logits += other.logits;
    units += other.units;
    decode_rows += other.decode_rows;
    verify_rows += other.verify_rows;
    prefill_rows += other.prefill_rows;
    verify_tokens += other.verify_tokens;
    prefill_tokens += other.prefill_tokens;
  }
};

HEADRACE_HOST_DEVICE inline Row row_of(const StepInput& input, int32_t r) {
  return effective_row(input.rows, r, *input.num_rows);
}

HEADRACE_HOST_DEVICE inline RowSums sums_of(const Row& row, const Limits& limits) {
  const RowKind kind = row_kind(row);
  const int32_t seq_len = row.context_len + row.query_len;
  RowSums sums;
  sums.tokens = row.query_len;
  sums.pages = pages_for(seq_len, limits.page_size);
  sums.logits = num_logit_tokens(row);
  sums.units = split_units(split_shape(limits), kind, row.context_len, seq_len);
  sums.decode_rows = kind == RowKind::kDecode ? 1 : 0;
  if (kind == RowKind::kVerify) {
    sums.verify_rows = 1;
    sums.verify_tokens = row.query_len;
  }
  if (kind == RowKind::kPrefill) {
    sums.prefill_rows = 1;
    sums.prefill_tokens = row.query_len;
    sums.chunks = num_chunks(row.context_len, row.query_len);
  }
  return sums;
}

// Everything that has one entry a row; own = sums_of(row). Lists by kind: a row fills its own
// place, and clears the place of its number when the list is too short to have it.
HEADRACE_HOST_DEVICE inline void write_row(const StepArrays& out, int32_t r, const Row& row,
                                           const RowSums& own, const RowSums& before,
                                           const RowSums& total) {
  const RowKind kind = row_kind(row);
  const int32_t seq_len = row.context_len + row.query_len;
  out.kind[r] = kind;
  out.query_len[r] = row.query_len;
  out.context_len[r] = row.context_len;
  out.seq_len[r] = seq_len;
  out.pages_used[r] = own.pages;
  out.last_page_len[r] = last_page_len(seq_len, out.limits.page_size);
  out.initial_slot[r] = row.initial_slot;
  out.final_slot[r] = row.final_slot;
  out.has_initial_state[r] = row.initial_slot != kNullSlot ? 1 : 0;
  out.num_accepted[r] = row.num_accepted;

  const int32_t max_rows = out.limits.max_rows;
  write_start(out.query_start_i32, max_rows, r, before.tokens, own.tokens);
  write_start(out.query_start_i64, max_rows, r, before.tokens, own.tokens);
  write_start(out.page_start, max_rows, r, before.pages, own.pages);
  write_start(out.chunk_start, max_rows, r, before.chunks, own.chunks);
  write_start(out.logit_start, max_rows, r, before.logits, own.logits);
  write_start(out.split_unit_start, max_rows, r, before.units, own.units);

  out.group_start[r] = 0;
  if (kind == RowKind::kDecode) {
    out.decode_rows[before.decode_rows] = r;
    out.group_start[r] = before.decode_tokens();
  } else if (kind == RowKind::kVerify) {
    out.verify_rows[before.verify_rows] = r;
    out.group_start[r] = total.decode_tokens() + before.verify_tokens;
  } else if (kind == RowKind::kPrefill) {
    out.prefill_rows[before.prefill_rows] = r;
    out.group_start[r] = total.decode_tokens() + total.verify_tokens + before.prefill_tokens;
  }
  if (r >= total.decode_rows) out.decode_rows[r] = -1;
  if (r >= total.verify_rows) out.verify_rows[r] = -1;
  if (r >= total.prefill_rows) out.prefill_rows[r] = -1;
}

HEADRACE_HOST_DEVICE inline void write_token(const StepInput& input, const StepArrays& out,
                                             int32_t t, const RowSums& total) {
  if (t >= total.tokens) {
    out.token_row[t] = -1;
    out.token_position[t] = 0;
    out.slot_mapping[t] = kNoToken;
    out.token_permutation[t] = -1;
    out.token_inverse[t] = -1;
    return;
  }
  const int32_t r = owner_of(out.query_start_i32, out.limits.max_rows, t);
  const int32_t nth = t - out.query_start_i32[r];
  const int32_t position = out.context_len[r] + nth;
  const int64_t entry =
      static_cast<int64_t>(r) * out.limits.max_pages_per_row + position / out.limits.page_size;
  const int32_t grouped = out.group_start[r] + nth;
  out.token_row[t] = r;
  out.token_position[t] = position;
  out.slot_mapping[t] = slot_mapping_of(input.page_table[entry], position, out.limits.page_size);
  out.token_inverse[t] = grouped;
  out.token_permutation[grouped] = t;
}

HEADRACE_HOST_DEVICE inline void write_chunk(const StepArrays& out, int32_t c,
                                             const RowSums& total) {
  if (c >= total.chunks) {
    out.chunk_row[c] = -1;
    out.chunk_token[c] = 0;
    out.chunk_len[c] = 0;
    return;
  }
  const int32_t r = owner_of(out.chunk_start, out.limits.max_rows, c);
  const int32_t nth = c - out.chunk_start[r];
  const int32_t begin = chunk_begin(out.context_len[r], nth);
  out.chunk_row[c] = r;
  out.chunk_token[c] = out.query_start_i32[r] + begin - out.context_len[r];
  out.chunk_len[c] = chunk_end(out.context_len[r], out.query_len[r], nth) - begin;
}

HEADRACE_HOST_DEVICE inline void write_logit(const StepArrays& out, int32_t i,
                                             const RowSums& total) {
  if (i >= total.logits) {
    out.logit_tokens[i] = -1;
    return;
  }
  const int32_t r = owner_of(out.logit_start, out.limits.max_rows, i);
  // They are the row's last tokens.
  out.logit_tokens[i] = out.query_start_i32[r + 1] - (out.logit_start[r + 1] - i);
}

// One row of the page table, by `lanes` workers of which this is number `lane`; `used` of its
// entries are in use. When all lanes are done, pages_filled[r] becomes `used`.
HEADRACE_HOST_DEVICE inline void write_page_row(const StepInput& input, const StepArrays& out,
                                                int32_t r, int32_t used, int32_t lane,
                                                int32_t lanes) {
  // So many loads are on their way before the first store, which might alias them.
  constexpr int32_t kInFlight = 8;
  const int32_t end = max_i32(used, out.pages_filled[r]);
  const int64_t base = static_cast<int64_t>(r) * out.limits.max_pages_per_row;
  for (int32_t first = lane; first < end; first += kInFlight * lanes) {
    int32_t pages[kInFlight];
    for (int32_t k = 0; k < kInFlight; ++k) {
      const int32_t i = first + k * lanes;
      pages[k] = i < used ? input.page_table[base + i] : kNullPage;
    }
    for (int32_t k = 0; k < kInFlight; ++k) {
      const int32_t i = first + k * lanes;
      if (i < end) out.page_table[base + i] = pages[k];
    }
  }
}

HEADRACE_HOST_DEVICE inline void write_counts(const StepInput& input, const StepArrays& out,
                                              const RowSums& total, int32_t num_partials) {
  Counts counts;
  counts.num_rows = max_i32(*input.num_rows, *input.padded_rows);
  counts.num_tokens = total.tokens;
  counts.num_decode_rows = total.decode_rows;
  counts.num_verify_rows = total.verify_rows;
  counts.num_prefill_rows = total.prefill_rows;
  counts.num_padding_rows =
      counts.num_rows - total.decode_rows - total.verify_rows - total.prefill_rows;
  counts.num_decode_tokens = total.decode_tokens();
  counts.num_verify_tokens = total.verify_tokens;
  counts.num_prefill_tokens = total.prefill_tokens;
  counts.num_chunks = total.chunks;
  counts.num_logit_tokens = total.logits;
  counts.num_pages_used = total.pages;
  counts.num_checkpoints = *input.num_checkpoints;
  counts.num_split_units = total.units;
  counts.num_partials = num_partials;
  *out.counts = counts;
}

}  // namespace headrace::metadata
