// SPDX-License-Identifier: Apache-2.0
// Turns the rows of a step into the rows of the next one, without the host: what was sampled and
// accepted lies in device memory. It changes rows with kRowSelfAdvance only; joins, leaves and page
// grants are the host's. Knows nothing of how tokens are sampled, proposed or accepted.
//
// A loop of steps is  build → layers → sample → advance → build → place_tokens → layers → …
#pragma once

#include <cstdint>

#include "metadata/arrays.h"
#include "metadata/host_device.h"
#include "metadata/index.h"
#include "metadata/step.h"
#include "tensor/stream.h"

namespace headrace::metadata {

struct AdvanceParams {
  StepInput input;                   // rows of the step that ran; overwritten by those of the next
  StepView step;                     // of the step that ran
  const int32_t* sampled = nullptr;  // [L] one token id for each logit token of the step
  // [R] verify rows: query tokens that stay, 1…query_len; a count outside is taken to the nearer
  // end. Entries of other rows are not read. May be null when there are no verify rows.
  const int32_t* accepted = nullptr;
  // [R] drafts that the row's next step brings, 0…kMaxVerifyTokens − 1. The tokens of all rows must
  // stay below max_tokens. Null: as many as in the step that ran.
  const int32_t* next_drafts = nullptr;
  int32_t* next_token = nullptr;  // [R] out: first token of the row's next step
  // [R] in and out. Query length of a row that waits for pages; 0 = it does not wait. A waiting row
  // is a padding row (it computes, writes and samples nothing) and keeps its other fields; it goes
  // on in the first step for which its granted pages suffice. Who puts another row in its place
  // sets the entry to 0.
  int32_t* stalled = nullptr;
  // [R] not 0: the sequence ends with what this step gave; its row becomes a padding row. Null: no
  // row ends by itself.
  const uint8_t* ended = nullptr;
};

// A row on its way from one step to the next, in registers.
struct RowState {
  Row row;
  int32_t stalled = 0;
  int32_t next_token = 0;
  bool has_next_token = false;
};

// Lets the row run with query_len tokens if its pages suffice, else makes it wait.
HEADRACE_HOST_DEVICE inline void run_or_stall(RowState& state, int32_t query_len,
                                              int32_t page_size) {
  const int32_t needed = pages_for(state.row.context_len + query_len, page_size);
  const bool fits = needed <= state.row.num_pages;
  state.row.query_len = fits ? query_len : 0;
  state.stalled = fits ? 0 : query_len;
}

// The row becomes a padding row of nobody. Its other fields are kept: they mean nothing.
HEADRACE_HOST_DEVICE inline void end_row(RowState& state) {
  state.row.query_len = 0;
  state.row.flags = 0;
  state.stalled = 0;
}

// Row r with kRowSelfAdvance, as it stood in the step that ran.
HEADRACE_HOST_DEVICE inline void advance_state(const AdvanceParams& params, int32_t r,
                                               RowState& state) {
  Row& row = state.row;
  const int32_t page_size = params.step.limits.page_size;
  if (row.query_len == 0) {
    if (state.stalled > 0) run_or_stall(state, state.stalled, page_size);
    return;
  }
  const bool verify = row_kind(row) == RowKind::kVerify;
  const int32_t stay =
      verify ? max_i32(1, min_i32(params.accepted[r], row.query_len)) : row.query_len;
  // The logits after the last token that stays; rows that do not verify have those only.
  state.next_token = params.sampled[params.step.logit_start[r] + (verify ? stay - 1 : 0)];
  state.has_next_token = true;

  row.context_len += stay;
  row.num_drafts = params.next_drafts != nullptr ? params.next_drafts[r] : row.num_drafts;
  row.initial_slot = row.final_slot;
  // A verify step leaves its window in the slot; what was accepted of it is replayed next time.
  row.num_accepted = verify && row.final_slot != kNullSlot ? stay : 0;
  if (params.ended != nullptr && params.ended[r] != 0) {
    end_row(state);
  } else {
    run_or_stall(state, 1 + row.num_drafts, page_size);
  }
}

// Once a step. Checkpoints belong to the step that ran.
HEADRACE_HOST_DEVICE inline void advance_step(const AdvanceParams& params) {
  *params.input.num_checkpoints = 0;
}

HEADRACE_HOST_DEVICE inline RowState load_row(const AdvanceParams& params, int32_t r) {
  RowState state;
  state.row = params.input.rows[r];
  state.stalled = params.stalled[r];
  return state;
}

HEADRACE_HOST_DEVICE inline void store_row(const AdvanceParams& params, int32_t r,
                                           const RowState& state) {
  params.input.rows[r] = state.row;
  params.stalled[r] = state.stalled;
  if (state.has_next_token) params.next_token[r] = state.next_token;
}

HEADRACE_HOST_DEVICE inline void advance_row(const AdvanceParams& params, int32_t r) {
  RowState state = load_row(params, r);
  if (r >= *params.input.num_rows || (state.row.flags & kRowSelfAdvance) == 0) {
    params.stalled[r] = 0;
    return;
  }
  advance_state(params, r, state);
  store_row(params, r, state);
}

// Where the tokens of the advanced rows go, once build() has derived the next step.
struct PlaceTokensParams {
  StepView step;
  const int32_t* next_token = nullptr;  // [R]
  const int32_t* drafts = nullptr;      // [R, drafts_stride]; may be null without verify rows
  int64_t drafts_stride = 0;
  int32_t* token_ids = nullptr;  // [T] the model's input
  // Rows that a patch record set for this step (patch.h) take their tokens from the words it
  // brought. Null: there are none.
  const uint64_t* tokens_at = nullptr;   // [R] one past the first word; 0 = none
  const int32_t* patch_words = nullptr;  // [patch_word_mask + 1] ring
  uint64_t patch_word_mask = 0;
};

// Writes the tokens of decode and verify rows with kRowSelfAdvance, of rows that a patch record
// set, and 0 for padding tokens. All other tokens are the host's.
HEADRACE_HOST_DEVICE inline void place_token(const PlaceTokensParams& params, int32_t t) {
  const StepView& step = params.step;
  const int32_t r = step.token_row[t];
  if (r < 0) {
    params.token_ids[t] = 0;
    return;
  }
  const int32_t nth = t - step.query_start_i32[r];
  if (params.tokens_at != nullptr && params.tokens_at[r] != 0) {
    const uint64_t word = params.tokens_at[r] - 1 + static_cast<uint64_t>(nth);
    params.token_ids[t] = params.patch_words[word & params.patch_word_mask];
    return;
  }
  if ((step.rows[r].flags & kRowSelfAdvance) == 0 || step.kind[r] == RowKind::kPrefill) return;
  params.token_ids[t] =
      nth == 0 ? params.next_token[r] : params.drafts[r * params.drafts_stride + nth - 1];
}

// Each submits one launch: no allocation, nothing read back. The arrays are kept by the caller.
void advance(Stream& stream, const AdvanceParams& params);
void place_tokens(Stream& stream, const PlaceTokensParams& params);

}  // namespace headrace::metadata
