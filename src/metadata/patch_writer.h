// SPDX-License-Identifier: Apache-2.0
// The host's side of the patch ring: writes records, knows which were applied, and keeps the rules
// that the device relies on (generations, order of steps, room in the ring). One thread uses it.
// It knows no CUDA: the ring may be ordinary or mapped memory.
//
//   send() is  reserve() → write_payload() → write_record() → publish();
// the pieces are public for those who test what happens between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/status.h"
#include "metadata/patch.h"

namespace headrace::metadata {

// What the host wants of one row, all at once. A join puts another sequence in the row's place:
// with it, the one that had the row leaves.
struct Patch {
  PatchKind kind = PatchKind::kGrant;
  int32_t row = 0;
  // The step that it is applied at; 0 = the first that may be named. One that comes before a step
  // already named, or before the first that may be, is moved there.
  uint64_t apply_at_step = 0;
  // kSet, kJoin. query_len and num_pages follow from the payload.
  Row fields = {};
  std::span<const int32_t> tokens = {};  // kSet, kJoin: those of the step
  std::span<const int32_t> pages = {};   // appended to those that the row has; kJoin: all it has
  std::span<const int32_t> blob = {};    // empty, or blob_words
};

struct PatchTicket {
  uint64_t record = 0;
  uint64_t step = 0;  // that it names
};

class PatchWriter {
 public:
  // `ring` by host addresses, zeroed, not used before.
  PatchWriter(const PatchRing& ring, const Limits& limits, const PatchShape& shape);

  // kInvalidArgument for what the device would reject, or a record larger than the ring;
  // kResourceExhausted when there is no room now. In either case nothing was written.
  Result<PatchTicket> send(const Patch& patch);

  // What the patch points to must stay until write_payload().
  Status reserve(const Patch& patch);
  void write_payload();
  void write_record();
  PatchTicket publish();

  // The record is done with, on the device, and every step before its own has run. The pages and
  // slots of a row may be given to others once the record that took them from it is: its leave, or
  // the join of the next sequence.
  bool is_applied(const PatchTicket& ticket) const;

  uint64_t num_sent() const { return head_; }
  uint64_t num_consumed() const;  // records that are done with
  uint64_t steps_started() const;
  // The first step that a record written now may name.
  uint64_t next_step() const;
  // Of the sequence that has the row; a join raises it.
  uint32_t generation(int32_t row) const { return generation_[static_cast<size_t>(row)]; }
  int32_t num_pages(int32_t row) const { return pages_[static_cast<size_t>(row)]; }
  // Rows where records were late, stale and so on; see PatchControl.
  uint64_t num_late() const;
  uint64_t num_stale() const;
  uint64_t num_rejected() const;
  uint64_t num_stalled() const;

 private:
  Status check(const Patch& patch) const;
  void write_words(uint64_t at, std::span<const int32_t> values);

  PatchRing ring_;
  Limits limits_;
  PatchShape shape_;

  uint64_t head_ = 0;
  uint64_t words_ = 0;   // written
  uint64_t tokens_ = 0;  // of all records
  uint64_t last_step_ = 0;
  std::vector<uint64_t> word_ends_;  // [record_capacity]
  std::vector<uint64_t> previous_;   // [R] last record of the row
  std::vector<uint32_t> generation_;
  std::vector<uint8_t> taken_;  // [R]
  std::vector<int32_t> pages_;  // [R] granted to the sequence that has the row

  Patch patch_;         // reserved
  PatchRecord record_;  // reserved
};

}  // namespace headrace::metadata
