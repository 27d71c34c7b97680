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
};

// Lets the row run with query_len tokens if its pages suffice, else makes it wait.
HEADRACE_HOST_DEVICE inline void run_or_stall(const AdvanceParams& params, int32_t r,
                                              int32_t query_len) {
  Row& row = params.input.rows[r];
  const int32_t needed = pages_for(row.context_len + query_len, params.step.limits.page_size);
  const bool fits = needed <= row.num_pages;
  row.query_len = fits ? query_len : 0;
  params.stalled[r] = fits ? 0 : query_len;
}

// Once a step. Checkpoints belong to the step that ran.
HEADRACE_HOST_DEVICE inline void advance_step(const AdvanceParams& params) {
  *params.input.num_checkpoints = 0;
}

HEADRACE_HOST_DEVICE inline void advance_row(const AdvanceParams& params, int32_t r) {
  Row& row = params.input.rows[r];
  if (r >= *params.input.num_rows || (row.flags & kRowSelfAdvance) == 0) {
    params.stalled[r] = 0;
    return;
  }
  if (row.query_len == 0) {
    if (params.stalled[r] > 0) run_or_stall(params, r, params.stalled[r]);
    return;
  }
  const bool verify = row_kind(row) == RowKind::kVerify;
  const int32_t stay =
      verify ? max_i32(1, min_i32(params.accepted[r], row.query_len)) : row.query_len;
  // The logits after the last token that stays; rows that do not verify have those only.
  params.next_token[r] = params.sampled[params.step.logit_start[r] + (verify ? stay - 1 : 0)];

  row.context_len += stay;
  row.num_drafts = params.next_drafts != nullptr ? params.next_drafts[r] : row.num_drafts;
  row.initial_slot = row.final_slot;
  // A verify step leaves its window in the slot; what was accepted of it is replayed next time.
  row.num_accepted = verify && row.final_slot != kNullSlot ? stay : 0;
  run_or_stall(params, r, 1 + row.num_drafts);
}

// Where the tokens of the advanced rows go, once build() has derived the next step.
struct PlaceTokensParams {
  StepView step;
  const int32_t* next_token = nullptr;  // [R]
  const int32_t* drafts = nullptr;      // [R, drafts_stride]; may be null without verify rows
  int64_t drafts_stride = 0;
  int32_t* token_ids = nullptr;  // [T] the model's input
};

// Writes the tokens of decode and verify rows with kRowSelfAdvance, and 0 for padding tokens. All
// other tokens are the host's.
HEADRACE_HOST_DEVICE inline void place_token(const PlaceTokensParams& params, int32_t t) {
  const StepView& step = params.step;
  const int32_t r = step.token_row[t];
  if (r < 0) {
    params.token_ids[t] = 0;
    return;
  }
  if ((step.rows[r].flags & kRowSelfAdvance) == 0 || step.kind[r] == RowKind::kPrefill) return;
  const int32_t nth = t - step.query_start_i32[r];
  params.token_ids[t] =
      nth == 0 ? params.next_token[r] : params.drafts[r * params.drafts_stride + nth - 1];
}

// Each submits one launch: no allocation, nothing read back. The arrays are kept by the caller.
void advance(Stream& stream, const AdvanceParams& params);
void place_tokens(Stream& stream, const PlaceTokensParams& params);

}  // namespace headrace::metadata
