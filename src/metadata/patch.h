// SPDX-License-Identifier: Apache-2.0
// The patch ring: how the host tells a device that runs step after step of rows that join, go on
// with another piece of their prompt, get pages, or leave. This header has the layout of what the
// two share and of the device's copy; the rules are in patch_rules.h, the host's side in
// patch_writer.h. A blob of fixed size a row (sampling parameters, say) is carried unread.
//
//   host:   payload, record ─► head (release)          waits for room: consumed (acquire)
//   device: head (acquire) ─► copy ─► … next step: apply ─► consumed (release)
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/status.h"
#include "metadata/advance.h"
#include "metadata/row.h"
#include "metadata/step.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace headrace::metadata {

// Records are numbered from 1 and stand at number % record_capacity; words (32 bits each) are
// counted from 0 and stand at count % word_capacity. 0 as a record number means none.
enum class PatchKind : uint32_t {
  kGrant = 0,  // pages and blob only
  kSet = 1,    // the row's next tokens: another piece of its prompt
  kJoin = 2,   // a new sequence takes the row; whoever had it leaves
  kLeave = 3,  // the row becomes a padding row of nobody
};

// One record: applied whole, or not at all. A line of 128 bytes would hold it, five loads do too.
struct PatchRecord {
  uint64_t apply_at_step = 0;  // never less than the record before it says
  uint64_t word_begin = 0;     // payload: tokens, then pages, then the blob
  uint64_t token_end = 0;      // tokens of all records up to this one
  uint64_t previous = 0;       // record before this one of the same row
  int32_t row = 0;
  // Of the sequence that has the row; a record of another one is ignored. A join makes it its own.
  uint32_t generation = 0;
  PatchKind kind = PatchKind::kGrant;
  int32_t num_blob_words = 0;  // 0 or PatchShape::blob_words
  // kSet, kJoin: what the row is in the step, query_len tokens in the payload. In every kind but
  // kLeave num_pages is the number of pages to append (kJoin: of all pages).
  Row fields = {};
};
static_assert(sizeof(PatchRecord) == 80, "copied in pieces of 16 bytes");

// Sizes, fixed when the memory is made. Capacities are powers of two.
struct PatchShape {
  int32_t record_capacity = 256;
  int32_t word_capacity = 1 << 16;  // payload; ≥ 4
  int32_t blob_words = 0;           // a row's
  // Tokens that records may bring into one step. The limits' max_tokens must have room for them
  // and, besides, for 1 + drafts of every row. A record that would bring more waits a step.
  int32_t max_set_tokens = 1;
};

// Shared words, a cache line for each side. Only the host writes the first, only the device the
// second. All are counts that never fall.
struct PatchControl {
  alignas(128) uint64_t head = 0;      // last record written
  alignas(128) uint64_t consumed = 0;  // all records up to it are done with
  uint64_t steps_started = 0;
  uint64_t num_late = 0;      // records applied after their step
  uint64_t num_stale = 0;     // records of a sequence that no longer had the row
  uint64_t num_rejected = 0;  // records that broke a rule; nothing of them was applied
  uint64_t num_stalled = 0;   // rows that waited for pages, each step counted
};

// The memory that both sides see, through the addresses of one of them.
struct PatchRing {
  PatchControl* control = nullptr;  // [1]
  PatchRecord* records = nullptr;   // [record_capacity]
  int32_t* words = nullptr;         // [word_capacity]
};

size_t patch_ring_bytes(const PatchShape& shape);
// In zeroed memory of so many bytes, 128-byte aligned.
PatchRing patch_ring_at(void* memory, const PatchShape& shape);

// What the device knows of patches between two steps.
struct PatchState {
  uint64_t step = 0;           // steps of which the fetch has run
  uint64_t fetched = 0;        // last record in the queue
  uint64_t fetched_words = 0;  // words in the queue
  uint64_t consumed = 0;       // as published
  uint64_t tokens_before = 0;  // token_end of record `consumed`
  uint64_t num_late = 0;
  uint64_t num_stale = 0;
  uint64_t num_rejected = 0;
  uint64_t num_stalled = 0;
};

// The device's copy of the ring, with a list of waiting records for each row, and what records set.
// R as in Limits.
struct PatchQueue {
  PatchState* state = nullptr;        // [1]
  PatchRecord* records = nullptr;     // [record_capacity]
  uint64_t* next = nullptr;           // [record_capacity] the row's next record, if higher
  int32_t* words = nullptr;           // [word_capacity]
  uint64_t* first_pending = nullptr;  // [R] the row's first record that is not done with
  uint64_t* tokens_at = nullptr;      // [R] the row's tokens of this step: word + 1; 0 = none
  uint32_t* generation = nullptr;     // [R] of the sequence that has the row
  int32_t* blobs = nullptr;           // [R, blob_words]
};

struct PatchParams {
  PatchShape shape;
  Limits limits;
  PatchRing ring;  // device addresses; only the fetch uses them
  PatchQueue queue;
};

// The queue's memory; starts as a queue in which nothing was ever fetched.
class PatchArena {
 public:
  // kInvalidArgument for a shape that makes no sense, or for which the limits have no room.
  static Result<PatchArena> create(Device device, const Limits& limits, const PatchShape& shape);

  const PatchShape& shape() const { return shape_; }
  const PatchQueue& queue() const { return queue_; }
  // `ring` by the addresses that the device uses.
  PatchParams params(const PatchRing& ring) const { return {shape_, limits_, ring, queue_}; }

 private:
  Buffer buffer_;
  PatchShape shape_;
  Limits limits_;
  PatchQueue queue_;
};

// A step begins with advance_and_apply() in place of advance(): one launch, no host memory read.
// The input's num_rows and padded_rows are those of the bucket, set once: rows that nobody has are
// padding rows. Rows without kRowSelfAdvance last one step.
// When it has run, and before the next step begins, fetch_patches() copies what the host has sent
// meanwhile and says what is done with: a branch of the step's graph beside all the rest. (What it
// frees is overwritten by the next step's fetch at the earliest.)
void advance_and_apply(Stream& stream, const AdvanceParams& advance, const PatchParams& patch);
void fetch_patches(Stream& stream, const PatchParams& params);

}  // namespace headrace::metadata
