// SPDX-License-Identifier: Apache-2.0
#include "tests/support/step_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <vector>

namespace headrace::test {
namespace {

using metadata::Counts;
using metadata::Row;
using metadata::RowKind;
using metadata::SplitPiece;
using metadata::SplitView;
using metadata::SplitWalk;
using metadata::StepInput;
using metadata::StepView;

// One row that takes part, and what follows from it alone.
struct Part {
  int32_t index = 0;
  Row row;
  RowKind kind = RowKind::kPadding;
  int32_t seq_len = 0;
  std::vector<int32_t> pages;
  int32_t first_token = 0;  // in the step
};

RowKind kind_of(const Row& row) {
  if (row.context_len == 0) return RowKind::kPrefill;
  if (row.num_drafts == 0) return row.query_len == 1 ? RowKind::kDecode : RowKind::kPrefill;
  return row.query_len - row.num_drafts == 1 ? RowKind::kVerify : RowKind::kPrefill;
}

std::vector<Part> parts_of(const StepInput& input, const metadata::Limits& limits) {
  std::vector<Part> parts;
  int32_t next_token = 0;
  for (int32_t r = 0; r < *input.num_rows; ++r) {
    if (input.rows[r].query_len == 0) continue;
    Part part;
    part.index = r;
    part.row = input.rows[r];
    part.kind = kind_of(part.row);
    part.seq_len = part.row.context_len + part.row.query_len;
    part.first_token = next_token;
    next_token += part.row.query_len;
    const int32_t* table = input.page_table + static_cast<int64_t>(r) * limits.max_pages_per_row;
    for (int32_t first = 0, i = 0; first < part.seq_len; first += limits.page_size, ++i) {
      part.pages.push_back(table[i]);
    }
    parts.push_back(part);
  }
  return parts;
}

template <typename T>
class Expected {
 public:
  Expected(int64_t size, T padding) : values_(static_cast<size_t>(size), padding) {}
  T& operator[](int64_t i) { return values_.at(static_cast<size_t>(i)); }
  const T& operator[](int64_t i) const { return values_.at(static_cast<size_t>(i)); }
  void push(T value) { (*this)[next_++] = value; }
  int64_t pushed() const { return next_; }

  std::string against(const char* name, const T* actual) const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (actual[i] != values_[i]) {
        return fmt::format("{}[{}] is {}, expected {}", name, i, static_cast<int64_t>(actual[i]),
                           static_cast<int64_t>(values_[i]));
      }
    }
    return {};
  }

 private:
  std::vector<T> values_;
  int64_t next_ = 0;
};

// Numbers a row owns → where each row's begin.
template <typename T>
Expected<T> starts_of(const Expected<int32_t>& lengths, int64_t num_rows) {
  Expected<T> starts(num_rows + 1, 0);
  for (int64_t r = 0; r < num_rows; ++r) {
    starts[r + 1] = starts[r] + lengths[r];
  }
  return starts;
}

std::string row_mismatch(const StepView& v, const std::vector<Part>& parts) {
  const int64_t rows = v.limits.max_rows;
  Expected<uint8_t> kind(rows, static_cast<uint8_t>(RowKind::kPadding)), has_state(rows, 0);
  Expected<int32_t> query_len(rows, 0), context_len(rows, 0), seq_len(rows, 0), pages_used(rows, 0);
  Expected<int32_t> last_page_len(rows, 0), initial_slot(rows, 0), final_slot(rows, 0);
  Expected<int32_t> num_accepted(rows, 0), decode(rows, -1), verify(rows, -1), prefill(rows, -1);
  Expected<int32_t> table(rows * v.limits.max_pages_per_row, 0);
  for (const Part& part : parts) {
    const int32_t r = part.index;
    kind[r] = static_cast<uint8_t>(part.kind);
    query_len[r] = part.row.query_len;
    context_len[r] = part.row.context_len;
    seq_len[r] = part.seq_len;
    pages_used[r] = static_cast<int32_t>(part.pages.size());
    last_page_len[r] =
        part.seq_len - (static_cast<int32_t>(part.pages.size()) - 1) * v.limits.page_size;
    final_slot[r] = part.row.final_slot;
    if (part.row.context_len > 0 && part.row.initial_slot != 0) {
      initial_slot[r] = part.row.initial_slot;
      has_state[r] = 1;
      num_accepted[r] = part.row.num_accepted;
    }
    if (part.kind == RowKind::kDecode) decode.push(r);
    if (part.kind == RowKind::kVerify) verify.push(r);
    if (part.kind == RowKind::kPrefill) prefill.push(r);
    for (size_t i = 0; i < part.pages.size(); ++i) {
      table[static_cast<int64_t>(r) * v.limits.max_pages_per_row + static_cast<int64_t>(i)] =
          part.pages[i];
    }
  }
  for (const std::string& mismatch :
       {kind.against("kind", reinterpret_cast<const uint8_t*>(v.kind)),
        query_len.against("query_len", v.query_len),
        context_len.against("context_len", v.context_len), seq_len.against("seq_len", v.seq_len),
        pages_used.against("pages_used", v.pages_used),
        last_page_len.against("last_page_len", v.last_page_len),
        initial_slot.against("initial_slot", v.initial_slot),
        final_slot.against("final_slot", v.final_slot),
        has_state.against("has_initial_state", v.has_initial_state),
        num_accepted.against("num_accepted", v.num_accepted),
        decode.against("decode_rows", v.decode_rows), verify.against("verify_rows", v.verify_rows),
        prefill.against("prefill_rows", v.prefill_rows), table.against("page_table", v.page_table),
        starts_of<int32_t>(query_len, rows).against("query_start_i32", v.query_start_i32),
        starts_of<int64_t>(query_len, rows).against("query_start_i64", v.query_start_i64),
        starts_of<int32_t>(pages_used, rows).against("page_start", v.page_start)}) {
    if (!mismatch.empty()) return mismatch;
  }
  return {};
}

// Tokens one by one; chunks end where a multiple of 64 is passed; logits in a second look.
std::string token_mismatch(const StepView& v, const std::vector<Part>& parts, Counts* counts) {
  const int64_t rows = v.limits.max_rows;
  const int64_t tokens = v.limits.max_tokens;
  const int64_t chunks = metadata::max_chunks(v.limits);
  Expected<int32_t> token_row(tokens, -1), position(tokens, 0), permutation(tokens, -1);
  Expected<int32_t> inverse(tokens, -1), logits(tokens, -1), row_logits(rows, 0);
  Expected<int64_t> slot_mapping(tokens, -1);
  Expected<int32_t> chunk_row(chunks, -1), chunk_token(chunks, 0), chunk_len(chunks, 0);
  Expected<int32_t> row_chunks(rows, 0);
  for (const Part& part : parts) {
    for (int32_t i = 0; i < part.row.query_len; ++i) {
      const int32_t at = part.row.context_len + i;
      const int32_t page = at / v.limits.page_size;
      token_row.push(part.index);
      position.push(at);
      slot_mapping.push(int64_t{part.pages.at(static_cast<size_t>(page))} * v.limits.page_size +
                        (at - page * v.limits.page_size));
      const bool last = i == part.row.query_len - 1;
      if ((part.row.flags & metadata::kRowEmit) != 0 && (last || part.kind == RowKind::kVerify)) {
        logits.push(part.first_token + i);
        ++row_logits[part.index];
      }
      if (part.kind != RowKind::kPrefill) continue;
      if (i == 0 || at % metadata::kChunkTokens == 0) {
        ++row_chunks[part.index];
        chunk_token[chunk_row.pushed()] = part.first_token + i;
        chunk_row.push(part.index);
      }
      ++chunk_len[chunk_row.pushed() - 1];
    }
  }
  for (RowKind kind : {RowKind::kDecode, RowKind::kVerify, RowKind::kPrefill}) {
    for (const Part& part : parts) {
      if (part.kind != kind) continue;
      for (int32_t i = 0; i < part.row.query_len; ++i) {
        inverse[part.first_token + i] = static_cast<int32_t>(permutation.pushed());
        permutation.push(part.first_token + i);
      }
    }
  }
  counts->num_chunks = static_cast<int32_t>(chunk_row.pushed());
  counts->num_logit_tokens = static_cast<int32_t>(logits.pushed());
  for (const std::string& mismatch :
       {token_row.against("token_row", v.token_row),
        position.against("token_position", v.token_position),
        slot_mapping.against("slot_mapping", v.slot_mapping),
        permutation.against("token_permutation", v.token_permutation),
        inverse.against("token_inverse", v.token_inverse),
        starts_of<int32_t>(row_chunks, rows).against("chunk_start", v.chunk_start),
        chunk_row.against("chunk_row", v.chunk_row),
        chunk_token.against("chunk_token", v.chunk_token),
        chunk_len.against("chunk_len", v.chunk_len), logits.against("logit_tokens", v.logit_tokens),
        starts_of<int32_t>(row_logits, rows).against("logit_start", v.logit_start)}) {
    if (!mismatch.empty()) return mismatch;
  }
  return {};
}

std::string count_mismatch(const StepView& v, const StepInput& input,
                           const std::vector<Part>& parts, Counts expected) {
  expected.num_rows = *input.padded_rows;
  expected.num_padding_rows = *input.padded_rows - static_cast<int32_t>(parts.size());
  expected.num_checkpoints = *input.num_checkpoints;
  for (const Part& part : parts) {
    const int32_t len = part.row.query_len;
    expected.num_tokens += len;
    expected.num_pages_used += static_cast<int32_t>(part.pages.size());
    if (part.kind == RowKind::kDecode) ++expected.num_decode_rows;
    if (part.kind == RowKind::kDecode) expected.num_decode_tokens += len;
    if (part.kind == RowKind::kVerify) ++expected.num_verify_rows;
    if (part.kind == RowKind::kVerify) expected.num_verify_tokens += len;
    if (part.kind == RowKind::kPrefill) ++expected.num_prefill_rows;
    if (part.kind == RowKind::kPrefill) expected.num_prefill_tokens += len;
  }
  // The split is checked by walking it.
  expected.num_split_units = v.split_unit_start[v.limits.max_rows];
  expected.num_partials = v.split_partial_start[v.limits.max_rows];
  struct Field {
    const char* name;
    int32_t Counts::*field;
  };
  for (const Field& f : {Field{"num_rows", &Counts::num_rows},
                         {"num_tokens", &Counts::num_tokens},
                         {"num_decode_rows", &Counts::num_decode_rows},
                         {"num_verify_rows", &Counts::num_verify_rows},
                         {"num_prefill_rows", &Counts::num_prefill_rows},
                         {"num_padding_rows", &Counts::num_padding_rows},
                         {"num_decode_tokens", &Counts::num_decode_tokens},
                         {"num_verify_tokens", &Counts::num_verify_tokens},
                         {"num_prefill_tokens", &Counts::num_prefill_tokens},
                         {"num_chunks", &Counts::num_chunks},
                         {"num_logit_tokens", &Counts::num_logit_tokens},
                         {"num_pages_used", &Counts::num_pages_used},
                         {"num_checkpoints", &Counts::num_checkpoints},
                         {"num_split_units", &Counts::num_split_units},
                         {"num_partials", &Counts::num_partials}}) {
    if (v.counts->*f.field != expected.*f.field) {
      return fmt::format("counts.{} is {}, expected {}", f.name, v.counts->*f.field,
                         expected.*f.field);
    }
  }
  return {};
}

}  // namespace

std::string step_mismatch(const metadata::StepArena& arena) {
  const StepView& view = arena.view();
  const std::vector<Part> parts = parts_of(arena.input(), arena.limits());
  Counts counts;
  std::string mismatch = row_mismatch(view, parts);
  if (mismatch.empty()) mismatch = token_mismatch(view, parts, &counts);
  if (mismatch.empty()) mismatch = count_mismatch(view, arena.input(), parts, counts);
  if (mismatch.empty()) mismatch = split_mismatch(view, metadata::split_view(view));
  return mismatch;
}

namespace {

bool same_piece(const SplitPiece& a, const SplitPiece& b) {
  return a.row == b.row && a.unit_begin == b.unit_begin && a.unit_end == b.unit_end &&
         a.key_begin == b.key_begin && a.key_end == b.key_end && a.partial == b.partial &&
         a.whole == b.whole;
}

// How a worker begins, against its pieces as a search finds them, which are checked elsewhere.
std::string worker_mismatch(const StepView& step, const SplitView& split, int32_t w) {
  const metadata::SplitWorker& begin = split.workers[w];
  std::vector<SplitPiece> pieces;
  SplitWalk search(split, w);
  for (SplitPiece piece; search.next(&piece);) pieces.push_back(piece);
  if (pieces.empty()) {
    const metadata::SplitWorker none;
    return std::memcmp(&begin, &none, sizeof(none)) == 0
               ? ""
               : fmt::format("worker {} has no work, but not all of its entry is zero", w);
  }
  const SplitPiece& first = pieces[0];
  const int32_t row = first.row;
  const int32_t row_partial = split.partial_start[row];
  int32_t units = 0;
  for (const SplitPiece& piece : pieces) units += piece.unit_end - piece.unit_begin;
  for (const auto& [name, value, expected] :
       std::initializer_list<std::tuple<const char*, int32_t, int32_t>>{
           {"num_units", begin.num_units, split.unit_start[split.num_rows]},
           {"unit_end", begin.unit_end, begin.unit_begin + units},
           {"first_end", begin.first_end, begin.unit_begin + first.unit_end - first.unit_begin},
           {"row", begin.row, row},
           {"row_begin", begin.row_begin, split.unit_start[row]},
           {"row_end", begin.row_end, split.unit_start[row + 1]},
           {"key_begin", begin.key_begin, first.key_begin},
           {"key_end", begin.key_end, first.key_end},
           {"partial", begin.partial, first.partial},
           {"row_partial", begin.row_partial, row_partial},
           {"row_partials", begin.row_partials, split.partial_start[row + 1] - row_partial},
           {"context_len", begin.context_len, step.context_len[row]},
           {"query_len", begin.query_len, step.query_len[row]},
           {"query_start", begin.query_start, step.query_start_i32[row]},
           {"reserved", begin.reserved, 0}}) {
    if (value != expected) {
      return fmt::format("worker {}: {} is {}, expected {}", w, name, value, expected);
    }
  }
  SplitWalk rest(split, w, begin);
  SplitPiece piece;
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (!rest.next(&piece) || !same_piece(piece, pieces[i])) {
      return fmt::format("worker {}: piece {} differs behind its entry", w, i);
    }
  }
  return rest.next(&piece) ? fmt::format("worker {} goes on past its end", w) : "";
}

}  // namespace

std::string split_mismatch(const StepView& step, const SplitView& split) {
  const int32_t rows = step.limits.max_rows;
  const int64_t unit = split.shape.unit_tokens;
  const int64_t num_units = split.unit_start[rows];
  const int64_t num_partials = split.partial_start[rows];
  if (split.unit_start[0] != 0 || split.partial_start[0] != 0) return "a split starts past 0";

  for (int32_t w = 0; w < split.shape.num_workers; ++w) {
    const std::string mismatch = worker_mismatch(step, split, w);
    if (!mismatch.empty()) return mismatch;
  }

  // Workers in order bring the pieces in row and key order, since ranges are consecutive.
  std::vector<SplitPiece> pieces;
  int64_t walked_units = 0;
  for (int32_t w = 0; w < split.shape.num_workers; ++w) {
    int64_t own = 0;
    SplitWalk walk(split, w);
    for (SplitPiece piece; walk.next(&piece);) {
      own += piece.unit_end - piece.unit_begin;
      pieces.push_back(piece);
    }
    if (own * split.shape.num_workers >= num_units + split.shape.num_workers) {
      return fmt::format("worker {} of {} has {} of {} units", w, split.shape.num_workers, own,
                         num_units);
    }
    walked_units += own;
  }
  if (walked_units != num_units) {
    return fmt::format("workers have {} units of {}", walked_units, num_units);
  }
  if (static_cast<int64_t>(pieces.size()) != num_partials) {
    return fmt::format("{} pieces for {} partial results", pieces.size(), num_partials);
  }
  if (num_partials > metadata::max_partials(step.limits, split.shape)) {
    return fmt::format("{} partial results pass their bound {}", num_partials,
                       metadata::max_partials(step.limits, split.shape));
  }

  size_t next = 0;
  for (int32_t r = 0; r < rows; ++r) {
    const size_t first_piece = next;
    if (split.partial_start[r] != static_cast<int64_t>(first_piece)) {
      return fmt::format("split_partial_start[{}] is {}, expected {}", r, split.partial_start[r],
                         first_piece);
    }
    const bool works = step.kind[r] == RowKind::kDecode || step.kind[r] == RowKind::kVerify;
    int64_t key = 0;
    if (split.shape.window > 0) {
      key = std::max<int64_t>(0, int64_t{step.context_len[r]} + 1 - split.shape.window);
    }
    int64_t row_units = 0;
    while (works && key < step.seq_len[r]) {
      if (next == pieces.size() || pieces[next].row != r) {
        return fmt::format("row {}: keys from {} to {} are not covered", r, key, step.seq_len[r]);
      }
      const SplitPiece& piece = pieces[next];
      const int64_t end = std::min<int64_t>(piece.unit_end * unit, step.seq_len[r]);
      const bool one_unit = piece.unit_end == piece.unit_begin + 1;
      if (piece.key_begin != key || piece.key_end != end || end <= key ||
          piece.unit_begin != key / unit || (split.shape.fixed && !one_unit)) {
        return fmt::format(
            "row {}: piece of units [{}, {}) covers keys [{}, {}), expected [{}, {})", r,
            piece.unit_begin, piece.unit_end, piece.key_begin, piece.key_end, key, end);
      }
      if (piece.partial != static_cast<int64_t>(next)) {
        return fmt::format("row {}: partial result {}, expected {}", r, piece.partial, next);
      }
      row_units += piece.unit_end - piece.unit_begin;
      key = end;
      ++next;
    }
    if (split.unit_start[r + 1] - split.unit_start[r] != row_units) {
      return fmt::format("row {} owns {} units, expected {}", r,
                         split.unit_start[r + 1] - split.unit_start[r], row_units);
    }
    for (size_t i = first_piece; i < next; ++i) {
      if (pieces[i].whole != (next - first_piece == 1)) {
        return fmt::format("row {}: {} pieces, 'whole' is {}", r, next - first_piece,
                           pieces[i].whole);
      }
    }
  }
  if (next != pieces.size()) return fmt::format("{} pieces are left", pieces.size() - next);
  return {};
}

}  // namespace headrace::test
