// SPDX-License-Identifier: Apache-2.0
#include "metadata/patch_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "metadata/patch_rules.h"
#include "metadata/system_atomic.h"

namespace headrace::metadata {
namespace {

size_t index(int32_t row) { return static_cast<size_t>(row); }

}  // namespace

PatchWriter::PatchWriter(const PatchRing& ring, const Limits& limits, const PatchShape& shape)
    : ring_(ring),
      limits_(limits),
      shape_(shape),
      word_ends_(static_cast<size_t>(shape.record_capacity)),
      previous_(index(limits.max_rows)),
      generation_(index(limits.max_rows)),
      taken_(index(limits.max_rows)),
      pages_(index(limits.max_rows)) {}

uint64_t PatchWriter::steps_started() const {
  return load_acquire_system(&ring_.control->steps_started);
}
uint64_t PatchWriter::next_step() const { return std::max(steps_started() + 2, last_step_); }
uint64_t PatchWriter::num_consumed() const { return load_acquire_system(&ring_.control->consumed); }
bool PatchWriter::is_applied(const PatchTicket& ticket) const {
  return num_consumed() >= ticket.record;
}
uint64_t PatchWriter::num_late() const { return load_acquire_system(&ring_.control->num_late); }
uint64_t PatchWriter::num_stale() const { return load_acquire_system(&ring_.control->num_stale); }
uint64_t PatchWriter::num_rejected() const {
  return load_acquire_system(&ring_.control->num_rejected);
}
uint64_t PatchWriter::num_stalled() const {
  return load_acquire_system(&ring_.control->num_stalled);
}

Status PatchWriter::check(const Patch& patch) const {
  if (patch.row < 0 || patch.row >= limits_.max_rows) {
    return invalid_argument(
        fmt::format("patch of row {}: there are {}", patch.row, limits_.max_rows));
  }
  const bool join = patch.kind == PatchKind::kJoin;
  if (!join && taken_[index(patch.row)] == 0) {
    return invalid_argument(
        fmt::format("patch of row {}, which nobody has: join first", patch.row));
  }
  const bool sets = sets_row(patch.kind);
  if (patch.kind == PatchKind::kLeave && !(patch.pages.empty() && patch.blob.empty())) {
    return invalid_argument(fmt::format("row {} leaves and is given pages or a blob", patch.row));
  }
  if (sets == patch.tokens.empty()) {
    return invalid_argument(
        fmt::format("patch of row {} with {} tokens: a row that is set needs "
                    "some, others have none",
                    patch.row, patch.tokens.size()));
  }
  if (!patch.blob.empty() && patch.blob.size() != static_cast<size_t>(shape_.blob_words)) {
    return invalid_argument(fmt::format("patch of row {}: blob of {} words, not {}", patch.row,
                                        patch.blob.size(), shape_.blob_words));
  }
  const size_t words = patch.tokens.size() + patch.pages.size() + patch.blob.size();
  if (words > static_cast<size_t>(shape_.word_capacity)) {
    return invalid_argument(fmt::format(
        "patch of row {}: {} words do not fit a ring of {}: send the prompt or the pages in pieces",
        patch.row, words, shape_.word_capacity));
  }
  return {};
}

Status PatchWriter::reserve(const Patch& patch) {
  HEADRACE_RETURN_IF_ERROR(check(patch));
  const size_t row = index(patch.row);
  const bool join = patch.kind == PatchKind::kJoin;
  PatchRecord record;
  record.row = patch.row;
  record.kind = patch.kind;
  record.generation = generation_[row] + (join ? 1 : 0);
  record.previous = previous_[row];
  record.word_begin = words_;
  record.num_blob_words = static_cast<int32_t>(patch.blob.size());
  record.fields = patch.fields;
  record.fields.query_len = static_cast<int32_t>(patch.tokens.size());
  record.fields.num_pages = static_cast<int32_t>(patch.pages.size());
  record.token_end = tokens_ + patch.tokens.size();
  record.apply_at_step = std::max(patch.apply_at_step, next_step());

  // What the device would say of it.
  PatchedRow now;
  now.generation = generation_[row];
  now.state.row.num_pages = pages_[row];
  PatchParams params;
  params.shape = shape_;
  params.limits = limits_;
  if (judge(now, record, params) != PatchOutcome::kApplied) {
    return invalid_argument(fmt::format(
        "patch of row {}: {} tokens after {}, {} drafts, {} pages besides {}: at most {} tokens a "
        "step, {} pages a row, and pages for all tokens",
        patch.row, patch.tokens.size(), patch.fields.context_len, patch.fields.num_drafts,
        patch.pages.size(), join ? 0 : pages_[row], shape_.max_set_tokens,
        limits_.max_pages_per_row));
  }

  const uint64_t consumed = num_consumed();
  const uint64_t consumed_words =
      consumed == 0 ? 0 : word_ends_[static_cast<size_t>(patch_slot(shape_, consumed))];
  if (head_ - consumed >= static_cast<uint64_t>(shape_.record_capacity) ||
      word_end_of(record) - consumed_words > static_cast<uint64_t>(shape_.word_capacity)) {
    return resource_exhausted("the patch ring is full: try again when a step has run");
  }
  patch_ = patch;
  record_ = record;
  return {};
}

void PatchWriter::write_words(uint64_t at, std::span<const int32_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    ring_.words[patch_word(shape_, at + i)] = values[i];
  }
}

void PatchWriter::write_payload() {
  uint64_t at = record_.word_begin;
  for (std::span<const int32_t> values : {patch_.tokens, patch_.pages, patch_.blob}) {
    write_words(at, values);
    at += values.size();
  }
}

void PatchWriter::write_record() { ring_.records[patch_slot(shape_, head_ + 1)] = record_; }

PatchTicket PatchWriter::publish() {
  const size_t row = index(record_.row);
  ++head_;
  words_ = word_end_of(record_);
  tokens_ = record_.token_end;
  last_step_ = record_.apply_at_step;
  word_ends_[static_cast<size_t>(patch_slot(shape_, head_))] = words_;
  previous_[row] = head_;
  if (record_.kind == PatchKind::kLeave) {
    generation_[row] = record_.generation + 1;
    pages_[row] = 0;
    taken_[row] = 0;
  } else {
    generation_[row] = record_.generation;
    pages_[row] = record_.fields.num_pages + (record_.kind == PatchKind::kJoin ? 0 : pages_[row]);
    taken_[row] = 1;
  }
  store_release_system(&ring_.control->head, head_);
  return {head_, last_step_};
}

Result<PatchTicket> PatchWriter::send(const Patch& patch) {
  HEADRACE_RETURN_IF_ERROR(reserve(patch));
  write_payload();
  write_record();
  return publish();
}

}  // namespace headrace::metadata
