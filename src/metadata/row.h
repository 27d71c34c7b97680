// SPDX-License-Identifier: Apache-2.0
// The input of a step: one Row for each sequence that takes part. Plain data that lives in device
// memory; the scheduler (later: the patch ring) writes it, everything else is derived from it.
#pragma once

#include <cstdint>

namespace headrace::metadata {

// What a row does is told, never inferred from lengths alone (docs/architecture.md, Words).
enum class RowKind : uint8_t {
  kPadding = 0,  // query_len == 0
  kDecode = 1,   // query_len == 1, context_len > 0, no drafts
  kVerify = 2,   // query_len == 1 + num_drafts, num_drafts > 0, context_len > 0
  kPrefill = 3,  // every other row, a fresh one-token prompt included
};

enum RowFlags : uint32_t {
  kRowEmit = 1u << 0,         // sample from the row's logits
  kRowSelfAdvance = 1u << 1,  // the device advances the row after the step; needs kRowEmit
  // No layer keeps a state for the row, so nothing must start from zeros: it decodes (or verifies)
  // without context too.
  kRowStateless = 1u << 2,
};

// The largest query of a verify row: one token and up to 15 drafts.
inline constexpr int32_t kMaxVerifyTokens = 16;
// Positions a GDN chunk spans. Chunk edges lie at absolute multiples of it.
inline constexpr int32_t kChunkTokens = 64;
// Page 0 and slot 0 are null: never written, never read for their content.
inline constexpr int32_t kNullPage = 0;
inline constexpr int32_t kNullSlot = 0;
// Slot mapping of a padding token.
inline constexpr int64_t kNoToken = -1;

struct Row {
  int32_t query_len = 0;     // new tokens of this step
  int32_t context_len = 0;   // tokens already in the cache
  int32_t num_drafts = 0;    // of the query tokens, the last num_drafts are drafts
  uint32_t flags = 0;        // RowFlags
  int32_t initial_slot = 0;  // GDN state to start from; 0 = zeros
  int32_t final_slot = 0;    // where the state goes; 0 = discard; equal = in place
  // Tokens of the pending verify window in initial_slot that were accepted and must be replayed
  // before this step's tokens; 0 = there is no pending window.
  int32_t num_accepted = 0;
  int32_t num_pages = 0;  // granted entries of the row's page table
};

// A state to be kept: after `position` tokens of the sequence (a multiple of kChunkTokens inside
// the row's query), the GDN state and convolution window of row `row` go to slot `slot`.
struct Checkpoint {
  int32_t row = 0;
  int32_t slot = 0;
  int32_t position = 0;
};

}  // namespace headrace::metadata
