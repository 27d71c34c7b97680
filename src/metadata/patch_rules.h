// SPDX-License-Identifier: Apache-2.0
// What happens to a patch record, cut into pieces that drivers (patch.cc: plain loops;
// cuda/patch_kernel.cu) run in this order, with a barrier between two lines:
//   at the start of a step   advance_and_apply_row for every row
//   beside the step's rest   begin_fetch
//                            fetch_record_piece, fetch_words of what begin_fetch found
//                            link_record for each of those records
//                            first_pending of all rows, the least of them
//                            end_fetch
// Only the fetch touches the ring that the host writes.
#pragma once

#include <cstdint>

#include "metadata/advance.h"
#include "metadata/host_device.h"
#include "metadata/index.h"
#include "metadata/patch.h"
#include "metadata/system_atomic.h"

namespace headrace::metadata {

// Payloads are copied by so many words; each begins at a multiple.
inline constexpr int32_t kPatchWordGrain = 4;

HEADRACE_HOST_DEVICE inline uint64_t patch_slot(const PatchShape& shape, uint64_t record) {
  return record & (static_cast<uint64_t>(shape.record_capacity) - 1);
}
HEADRACE_HOST_DEVICE inline uint64_t patch_word(const PatchShape& shape, uint64_t word) {
  return word & (static_cast<uint64_t>(shape.word_capacity) - 1);
}
HEADRACE_HOST_DEVICE inline bool sets_row(PatchKind kind) {
  return kind == PatchKind::kSet || kind == PatchKind::kJoin;
}
HEADRACE_HOST_DEVICE inline int32_t num_tokens_of(const PatchRecord& record) {
  return sets_row(record.kind) ? record.fields.query_len : 0;
}
// One past the record's payload.
HEADRACE_HOST_DEVICE inline uint64_t word_end_of(const PatchRecord& record) {
  const int64_t words = int64_t{num_tokens_of(record)} + record.fields.num_pages +
                        record.num_blob_words + kPatchWordGrain - 1;
  return record.word_begin + static_cast<uint64_t>(words / kPatchWordGrain * kPatchWordGrain);
}

// Pages that a row needs so that it cannot wait for one before the host can grant the next:
// `seq_len` tokens of it are known to the host, and the records it writes now are applied
// `steps_ahead` steps after the last one whose result it knows (at least 2).
HEADRACE_HOST_DEVICE inline int32_t pages_to_grant(int32_t seq_len, int32_t num_drafts,
                                                   int32_t page_size, int32_t steps_ahead = 2) {
  return pages_for(seq_len + max_i32(2, steps_ahead) * (1 + num_drafts), page_size);
}

// --- at the start of a step -------------------------------------------------------------------

struct PatchedRow {
  RowState state;
  uint32_t generation = 0;
  uint64_t tokens_at = 0;
};

enum class PatchOutcome { kApplied, kStale, kRejected };

HEADRACE_HOST_DEVICE inline PatchOutcome judge(const PatchedRow& row, const PatchRecord& record,
                                               const PatchParams& params) {
  const bool join = record.kind == PatchKind::kJoin;
  const int32_t ahead = static_cast<int32_t>(record.generation - row.generation);
  if (join ? ahead <= 0 : ahead != 0) return PatchOutcome::kStale;

  const Row& fields = record.fields;
  const int64_t pages = (join ? int64_t{0} : row.state.row.num_pages) + fields.num_pages;
  if (fields.num_pages < 0 || pages > params.limits.max_pages_per_row) {
    return PatchOutcome::kRejected;
  }
  if (record.num_blob_words != 0 && record.num_blob_words != params.shape.blob_words) {
    return PatchOutcome::kRejected;
  }
  if (!sets_row(record.kind)) return PatchOutcome::kApplied;
  // Its tokens are there in this step only: a row that is set cannot wait for pages.
  const int64_t seq_len = int64_t{fields.context_len} + fields.query_len;
  const bool runs = fields.query_len >= 1 && fields.query_len <= params.shape.max_set_tokens &&
                    fields.context_len >= 0 && fields.num_drafts >= 0 &&
                    fields.num_drafts < min_i32(fields.query_len, kMaxVerifyTokens) &&
                    seq_len <= pages * params.limits.page_size;
  return runs ? PatchOutcome::kApplied : PatchOutcome::kRejected;
}

// Whether the turn of record `number` has come. Of one row a step takes one piece of prompt, and of
// all rows no more tokens than there is room for: records that come late wait for the next step
// then. The first of all that wait never does, so that whatever it holds cannot stop the ring.
HEADRACE_HOST_DEVICE inline bool is_due(const PatchedRow& row, const PatchRecord& record,
                                        uint64_t number, const PatchParams& params, uint64_t step) {
  if (record.apply_at_step > step) return false;
  const PatchState& state = *params.queue.state;
  if (!sets_row(record.kind) || number == state.consumed + 1) return true;
  const uint64_t tokens = record.token_end - state.tokens_before;
  return row.tokens_at == 0 && tokens <= static_cast<uint64_t>(params.shape.max_set_tokens);
}

// For a record that judge() let pass. Of `lanes` workers that all call it this is number `lane`;
// `row` is each one's own copy.
HEADRACE_HOST_DEVICE inline void apply_record(const StepInput& input, const PatchParams& params,
                                              const PatchRecord& record, int32_t lane,
                                              int32_t lanes, PatchedRow& row) {
  Row& fields = row.state.row;
  if (record.kind == PatchKind::kLeave) {
    end_row(row.state);
    row.generation = record.generation + 1;  // nobody's
    row.tokens_at = 0;
    return;
  }
  int32_t num_pages = record.kind == PatchKind::kJoin ? 0 : fields.num_pages;
  const int32_t num_tokens = num_tokens_of(record);
  const uint64_t pages_at = record.word_begin + static_cast<uint64_t>(num_tokens);
  const PatchQueue& queue = params.queue;
  const int64_t table = int64_t{record.row} * params.limits.max_pages_per_row + num_pages;
  for (int32_t i = lane; i < record.fields.num_pages; i += lanes) {
    input.page_table[table + i] =
        queue.words[patch_word(params.shape, pages_at + static_cast<uint64_t>(i))];
  }
  const uint64_t blob_at = pages_at + static_cast<uint64_t>(record.fields.num_pages);
  for (int32_t i = lane; i < record.num_blob_words; i += lanes) {
    queue.blobs[int64_t{record.row} * params.shape.blob_words + i] =
        queue.words[patch_word(params.shape, blob_at + static_cast<uint64_t>(i))];
  }
  num_pages += record.fields.num_pages;
  if (sets_row(record.kind)) {
    fields = record.fields;
    row.state.stalled = 0;
    row.generation = record.generation;
    row.tokens_at = record.word_begin + 1;
  }
  fields.num_pages = num_pages;
}

// The row as it goes into step `step`: advanced, then patched. `first` is its first waiting record
// and becomes the first that waits on.
HEADRACE_HOST_DEVICE inline void patch_row(const AdvanceParams& advance, const PatchParams& params,
                                           int32_t r, int32_t lane, int32_t lanes, uint64_t step,
                                           uint64_t& first, PatchedRow& row) {
  PatchState& counts = *params.queue.state;
  if ((row.state.row.flags & kRowSelfAdvance) != 0) {
    advance_state(advance, r, row.state);
  } else {
    end_row(row.state);
  }
  while (first != 0) {
    const PatchRecord record = params.queue.records[patch_slot(params.shape, first)];
    if (!is_due(row, record, first, params, step)) break;
    const PatchOutcome outcome = judge(row, record, params);
    if (outcome == PatchOutcome::kApplied) {
      apply_record(advance.input, params, record, lane, lanes, row);
    }
    if (lane == 0) {
      if (outcome == PatchOutcome::kStale) count_one(&counts.num_stale);
      if (outcome == PatchOutcome::kRejected) count_one(&counts.num_rejected);
      if (outcome == PatchOutcome::kApplied && record.apply_at_step < step) {
        count_one(&counts.num_late);
      }
    }
    // A lower number is what an older record left in this place. (So nothing goes round for ever.)
    const uint64_t next = params.queue.next[patch_slot(params.shape, first)];
    first = next > first ? next : 0;
  }
  if (row.state.stalled > 0) {
    run_or_stall(row.state, row.state.stalled, params.limits.page_size);
    if (row.state.stalled > 0 && lane == 0) count_one(&counts.num_stalled);
  }
}

// What a row is made of, read by every lane before any lane stores.
HEADRACE_HOST_DEVICE inline PatchedRow load_patched_row(const AdvanceParams& advance,
                                                        const PatchQueue& queue, int32_t r) {
  PatchedRow row;
  row.state = load_row(advance, r);
  row.generation = queue.generation[r];
  return row;
}

// By one lane, after all have done patch_row().
HEADRACE_HOST_DEVICE inline void store_patched_row(const AdvanceParams& advance,
                                                   const PatchQueue& queue, int32_t r,
                                                   uint64_t first, const PatchedRow& row) {
  store_row(advance, r, row.state);
  queue.generation[r] = row.generation;
  queue.tokens_at[r] = row.tokens_at;
  queue.first_pending[r] = first;
}

// Tokens of rows that were set come from the queue.
HEADRACE_HOST_DEVICE inline PlaceTokensParams with_patches(PlaceTokensParams place,
                                                           const PatchParams& params) {
  place.tokens_at = params.queue.tokens_at;
  place.patch_words = params.queue.words;
  place.patch_word_mask = static_cast<uint64_t>(params.shape.word_capacity) - 1;
  return place;
}

// --- beside the rest of the step -------------------------------------------------

struct PatchFetch {
  uint64_t records_before = 0;
  uint64_t records_end = 0;  // records (records_before, records_end] are new
  uint64_t words_before = 0;
  uint64_t words_end = 0;  // words [words_before, words_end) are new
};

HEADRACE_HOST_DEVICE inline PatchFetch begin_fetch(const PatchParams& params) {
  const PatchState& state = *params.queue.state;
  PatchFetch fetch;
  fetch.records_before = state.fetched;
  fetch.records_end = load_acquire_system(&params.ring.control->head);
  fetch.words_before = state.fetched_words;
  fetch.words_end = fetch.words_before;
  if (fetch.records_end != fetch.records_before) {
    fetch.words_end = word_end_of(params.ring.records[patch_slot(params.shape, fetch.records_end)]);
  }
  return fetch;
}

struct alignas(16) PatchPiece {
  uint32_t words[4];
};
inline constexpr int32_t kPatchRecordPieces = sizeof(PatchRecord) / sizeof(PatchPiece);

HEADRACE_HOST_DEVICE inline void fetch_record_piece(const PatchParams& params, uint64_t record,
                                                    int32_t piece) {
  const uint64_t slot = patch_slot(params.shape, record);
  reinterpret_cast<PatchPiece*>(params.queue.records + slot)[piece] =
      reinterpret_cast<const PatchPiece*>(params.ring.records + slot)[piece];
}

// kPatchWordGrain words from `word`, a multiple of it.
HEADRACE_HOST_DEVICE inline void fetch_words(const PatchParams& params, uint64_t word) {
  const uint64_t at = patch_word(params.shape, word);
  *reinterpret_cast<PatchPiece*>(params.queue.words + at) =
      *reinterpret_cast<const PatchPiece*>(params.ring.words + at);
}

// Appends the record to its row's list.
HEADRACE_HOST_DEVICE inline void link_record(const PatchParams& params, const PatchFetch& fetch,
                                             uint64_t number) {
  const PatchQueue& queue = params.queue;
  const PatchRecord& record = queue.records[patch_slot(params.shape, number)];
  if (record.row < 0 || record.row >= params.limits.max_rows) {
    count_one(&queue.state->num_rejected);
    return;
  }
  // The record before is waiting if it is new too, or if any of the row is.
  if (record.previous > fetch.records_before || queue.first_pending[record.row] != 0) {
    queue.next[patch_slot(params.shape, record.previous)] = number;
  } else {
    queue.first_pending[record.row] = number;
  }
}

// `least_pending`: of first_pending, not counting rows that have none; 0 if no row has any.
HEADRACE_HOST_DEVICE inline void end_fetch(const PatchParams& params, const PatchFetch& fetch,
                                           uint64_t least_pending) {
  PatchState& state = *params.queue.state;
  ++state.step;
  state.fetched = fetch.records_end;
  state.fetched_words = fetch.words_end;
  const uint64_t consumed = least_pending != 0 ? least_pending - 1 : fetch.records_end;
  // When it has not moved, the place of that record may hold a new one by now.
  if (consumed != state.consumed) {
    state.consumed = consumed;
    state.tokens_before = params.queue.records[patch_slot(params.shape, consumed)].token_end;
  }
  PatchControl& control = *params.ring.control;
  store_relaxed_system(&control.num_late, state.num_late);
  store_relaxed_system(&control.num_stale, state.num_stale);
  store_relaxed_system(&control.num_rejected, state.num_rejected);
  store_relaxed_system(&control.num_stalled, state.num_stalled);
  store_release_system(&control.steps_started, state.step);
  store_release_system(&control.consumed, state.consumed);
}

}  // namespace headrace::metadata
