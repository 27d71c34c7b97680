// SPDX-License-Identifier: Apache-2.0
// The metadata of a step: every array derived from its rows, built once and shared by all layers.
// This is what attention, GDN and the engine read; how it is made is derive.h's business. Nothing
// here knows of attention or GDN.
#pragma once

#include <cstdint>

#include "metadata/row.h"

namespace headrace::metadata {

struct SplitWorker;

// Maxima that size the arena. All that varies from step to step stays below them.
struct Limits {
  int32_t max_rows = 1;           // R
  int32_t max_tokens = 1;         // T, query tokens of a step
  int32_t max_pages_per_row = 1;  // P
  int32_t page_size = 16;         // tokens
  int32_t max_checkpoints = 0;    // N
  int32_t num_workers = 1;        // W, thread blocks that share the decode work
  int32_t split_tokens = 64;      // key positions of one unit of decode work
};

// Sizes of this step. One struct in device memory: no kernel gets a length from the host.
struct Counts {
  int32_t num_rows = 0;    // rows of the bucket, padding rows included
  int32_t num_tokens = 0;  // of rows that are not padding
  int32_t num_decode_rows = 0;
  int32_t num_verify_rows = 0;
  int32_t num_prefill_rows = 0;
  int32_t num_padding_rows = 0;
  int32_t num_decode_tokens = 0;
  int32_t num_verify_tokens = 0;
  int32_t num_prefill_tokens = 0;
  int32_t num_chunks = 0;        // GDN chunks of all prefill rows
  int32_t num_logit_tokens = 0;  // tokens whose logits are wanted
  int32_t num_pages_used = 0;    // sum over rows
  int32_t num_checkpoints = 0;
  int32_t num_split_units = 0;  // decode work: sum over decode and verify rows, see split.h
  int32_t num_partials = 0;     // partial results that the split of this step makes
};

// Read-only view of the arena. Every pointer is device memory; R, T, P, N as in Limits, C is
// max_chunks(limits), L = T. Entries past the counts hold the stated padding value, so that a
// kernel over the whole bucket reads nothing stale.
struct StepView {
  Limits limits;
  const Counts* counts = nullptr;  // [1]

  // Rows, in the scheduler's order.
  // Input as it was given: of a padding row, and past the rows in use, the fields mean nothing.
  const Row* rows = nullptr;                   // [R]
  const RowKind* kind = nullptr;               // [R]      padding: kPadding
  const int32_t* query_len = nullptr;          // [R]      0
  const int32_t* context_len = nullptr;        // [R]      0
  const int32_t* seq_len = nullptr;            // [R]      0; context_len + query_len
  const int32_t* query_start_i32 = nullptr;    // [R + 1]  the last value repeats
  const int64_t* query_start_i64 = nullptr;    // [R + 1]  the same in 64 bits
  const int32_t* pages_used = nullptr;         // [R]      0; ceil(seq_len / page_size)
  const int32_t* page_start = nullptr;         // [R + 1]  cumulative pages_used
  const int32_t* last_page_len = nullptr;      // [R]      0; tokens in the last page, 1…page_size
  const int32_t* page_table = nullptr;         // [R, P]   kNullPage past pages_used
  const int32_t* initial_slot = nullptr;       // [R]      kNullSlot; so too when context_len is 0
  const int32_t* final_slot = nullptr;         // [R]      kNullSlot
  const uint8_t* has_initial_state = nullptr;  // [R]  0; initial_slot ≠ 0
  const int32_t* num_accepted = nullptr;       // [R]      0

  // Rows by kind, each in row order. Entries past the kind's count: −1.
  const int32_t* decode_rows = nullptr;   // [R]
  const int32_t* verify_rows = nullptr;   // [R]
  const int32_t* prefill_rows = nullptr;  // [R]

  // Tokens, in row order.
  const int32_t* token_row = nullptr;       // [T]  −1
  const int32_t* token_position = nullptr;  // [T]  0; position in the sequence
  const int64_t* slot_mapping = nullptr;    // [T]  kNoToken; page · page_size + offset in it
  // Tokens grouped decode, verify, prefill: grouped index → token, and back. Padding: −1.
  const int32_t* token_permutation = nullptr;  // [T]
  const int32_t* token_inverse = nullptr;      // [T]

  // Chunks of the prefill rows, in row order. The first chunk of a row is short when context_len
  // is no multiple of kChunkTokens.
  const int32_t* chunk_start =
      nullptr;                         // [R + 1] chunks before row r (rows of other kinds: 0 long)
  const int32_t* chunk_row = nullptr;  // [C]  −1
  const int32_t* chunk_token = nullptr;  // [C]  0; first token of the chunk, index in the step
  const int32_t* chunk_len = nullptr;    // [C]  0; 1…kChunkTokens

  // Tokens whose logits are wanted: the last of an emitting decode or prefill row, all of an
  // emitting verify row.
  const int32_t* logit_tokens = nullptr;  // [L]     −1
  const int32_t* logit_start = nullptr;   // [R + 1] logit tokens before row r

  const Checkpoint* checkpoints = nullptr;  // [N] input, the first counts->num_checkpoints

  // Split of the decode and verify work over limits.num_workers; see split.h.
  const SplitWorker* split_workers = nullptr;    // [W]     how each worker begins
  const int32_t* split_unit_start = nullptr;     // [R + 1] units of work before row r
  const int32_t* split_partial_start = nullptr;  // [R + 1] partial results before row r
};

}  // namespace headrace::metadata
