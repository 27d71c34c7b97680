// SPDX-License-Identifier: Apache-2.0
// What the next step does: a pure function of the sequences' lengths, the budget and the room in
// the pools. It knows neither tokens nor page numbers, and changes nothing itself.
//
// Policy, in this order:
//   1. Every decoding sequence gets its one token, the oldest first. One that lacks a page takes it
//      from the youngest running sequence, which is preempted.
//   2. Running prefills get chunks of what is left of the budget, the oldest first.
//   3. Waiting sequences are admitted in FIFO order, each with the pages of all its tokens and one
//      to go on with, a slot and a first chunk; nobody overtakes one that does not fit. Nobody is
//      admitted in a step that preempted somebody.
// When the decodes left no room for a chunk of any prefill, the next step begins with one chunk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headrace::engine {

struct SchedulerLimits {
  int32_t max_rows = 16;
  int32_t max_tokens = 512;  // token budget of a step, at least kChunkTokens
  int32_t page_size = 16;    // tokens
};

// A sequence as the scheduler sees it. Decoding means that one token is left to compute.
struct SequenceLengths {
  int32_t num_tokens = 0;           // prompt and generated
  int32_t num_computed_tokens = 0;  // in the cache
  int32_t num_pages = 0;            // held
};

struct SchedulerInput {
  std::span<const SequenceLengths> running;  // the oldest first
  std::span<const SequenceLengths> waiting;  // the next first; as many as may be admitted
  int32_t free_pages = 0;
  int32_t free_slots = 0;
  bool prefill_first = false;  // StepPlan::prefill_was_left_out of the step before
};

struct PlannedRow {
  int32_t sequence = 0;  // index in running; from running.size() on: in waiting
  int32_t query_len = 0;
  int32_t new_pages = 0;  // to be granted before the step
  bool emit = false;      // the last known token is among them: sample the next
  bool is_decode = false;
};

struct StepPlan {
  std::vector<PlannedRow> rows;    // decodes first, then prefills
  std::vector<int32_t> preempted;  // indices in running, the youngest first
  int32_t num_admitted = 0;        // the first ones of waiting
  bool prefill_was_left_out = false;

  void clear();
};

// Tokens of the next chunk of a prefill: all that remains if the budget allows it, else up to the
// last multiple of kChunkTokens (an absolute position) inside the budget, so that a result does not
// depend on how its prompt was cut. 0 if there is no such chunk. A single token is never left over,
// because it would be computed as a decode row, which rounds differently: the chunk takes it along,
// one token past the budget.
int32_t prefill_chunk(int32_t context_len, int32_t remaining, int32_t budget);

// Clears `plan` first. Needs max_rows ≤ max_tokens, and a pool that can hold each sequence alone.
void plan_step(const SchedulerLimits& limits, const SchedulerInput& input, StepPlan& plan);

}  // namespace headrace::engine
