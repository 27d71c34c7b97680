// SPDX-License-Identifier: Apache-2.0
// Write access to the arrays of a step: the input that the host gives and the arrays that build()
// derives. Only metadata writes the latter; everyone else reads them through StepView (step.h),
// where each array is described.
#pragma once

#include <cstdint>

#include "metadata/step.h"

namespace headrace::metadata {

// What the host (later: the patch records) writes before a step. R, P, N as in Limits.
struct StepInput {
  int32_t* num_rows = nullptr;         // [1] rows in use; padding rows may stand among them
  int32_t* padded_rows = nullptr;      // [1] rows of the bucket, ≥ num_rows; the rest is padding
  Row* rows = nullptr;                 // [R]
  int32_t* page_table = nullptr;       // [R, P] the first rows[r].num_pages entries are granted
  int32_t* num_checkpoints = nullptr;  // [1]
  Checkpoint* checkpoints = nullptr;   // [N]
};

// The derived arrays under their names in StepView.
struct StepArrays {
  Limits limits;
  Counts* counts = nullptr;
  RowKind* kind = nullptr;
  int32_t* query_len = nullptr;
  int32_t* context_len = nullptr;
  int32_t* seq_len = nullptr;
  int32_t* query_start_i32 = nullptr;
  int64_t* query_start_i64 = nullptr;
  int32_t* pages_used = nullptr;
  int32_t* page_start = nullptr;
  int32_t* last_page_len = nullptr;
  int32_t* page_table = nullptr;
  int32_t* initial_slot = nullptr;
  int32_t* final_slot = nullptr;
  uint8_t* has_initial_state = nullptr;
  int32_t* num_accepted = nullptr;
  int32_t* decode_rows = nullptr;
  int32_t* verify_rows = nullptr;
  int32_t* prefill_rows = nullptr;
  int32_t* token_row = nullptr;
  int32_t* token_position = nullptr;
  int64_t* slot_mapping = nullptr;
  int32_t* token_permutation = nullptr;
  int32_t* token_inverse = nullptr;
  int32_t* chunk_start = nullptr;
  int32_t* chunk_row = nullptr;
  int32_t* chunk_token = nullptr;
  int32_t* chunk_len = nullptr;
  int32_t* logit_tokens = nullptr;
  int32_t* logit_start = nullptr;
  SplitWorker* split_workers = nullptr;
  int32_t* split_unit_start = nullptr;
  int32_t* split_partial_start = nullptr;

  // Scratch of the build, not part of the view.
  int32_t* group_start = nullptr;  // [R] grouped index of the row's first token
  // [R] entries of page_table's row that may differ from kNullPage. Kept from build to build, so
  // that clearing what the last step used costs no more than what it used.
  int32_t* pages_filled = nullptr;
};

}  // namespace headrace::metadata
