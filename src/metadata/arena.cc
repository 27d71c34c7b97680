// SPDX-License-Identifier: Apache-2.0
// Lays the arrays of a step out in one allocation whose size follows from the limits alone.
#include "metadata/arena.h"

#include <fmt/format.h>

#include <cstddef>

#include "metadata/index.h"
#include "metadata/split.h"

namespace headrace::metadata {
namespace {

constexpr int32_t kMaxPageSize = 1024;

bool page_size_is_valid(int32_t page_size) {
  if (page_size == 1 || page_size == 8) return true;
  return page_size > 0 && page_size % 16 == 0 && page_size <= kMaxPageSize;
}

Status check_limits(const Limits& limits) {
  struct Positive {
    const char* name;
    int32_t value;
  };
  for (const Positive& field : {Positive{"max_rows", limits.max_rows},
                                {"max_tokens", limits.max_tokens},
                                {"max_pages_per_row", limits.max_pages_per_row},
                                {"num_workers", limits.num_workers},
                                {"split_tokens", limits.split_tokens}}) {
    if (field.value < 1) {
      return invalid_argument(
          fmt::format("{} is {}: give a value of 1 or more", field.name, field.value));
    }
  }
  if (limits.max_checkpoints < 0) {
    return invalid_argument(
        fmt::format("max_checkpoints is {}: give 0 or more", limits.max_checkpoints));
  }
  if (!page_size_is_valid(limits.page_size)) {
    return invalid_argument(fmt::format("page_size is {}: give 1, 8 or a multiple of 16 up to {}",
                                        limits.page_size, kMaxPageSize));
  }
  // Sums over rows are 32-bit; these bound them all.
  const int64_t row_pages = limits.max_pages_per_row;
  const int64_t row_tokens = row_pages * limits.page_size;
  const int64_t row_units = (row_tokens + limits.split_tokens - 1) / limits.split_tokens;
  if (row_tokens > INT32_MAX - kChunkTokens) {
    return invalid_argument(
        fmt::format("max_pages_per_row {} of {} tokens make {} tokens a row: lower "
                    "max_pages_per_row, positions are 32-bit",
                    row_pages, limits.page_size, row_tokens));
  }
  if (limits.max_rows > INT32_MAX / row_pages) {
    return invalid_argument(
        fmt::format("max_rows {} times max_pages_per_row {} passes {}: lower one of them",
                    limits.max_rows, row_pages, INT32_MAX));
  }
  if (row_units > INT32_MAX / limits.max_rows) {
    return invalid_argument(
        fmt::format("max_rows {} times {} units of {} key positions passes {}: raise split_tokens "
                    "or lower max_rows",
                    limits.max_rows, row_units, limits.split_tokens, INT32_MAX));
  }
  if (limits.max_rows > INT32_MAX - limits.num_workers) {
    return invalid_argument(fmt::format("num_workers {} plus max_rows {} passes {}: lower them",
                                        limits.num_workers, limits.max_rows, INT32_MAX));
  }
  return {};
}

// Run twice: without memory it measures, with memory it gives out the addresses.
class Layout {
 public:
  explicit Layout(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(int64_t count) {
    T* array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + size_bytes_);
    constexpr int64_t kAlignBytes = 64;  // no two arrays share a cache line
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    size_bytes_ += (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
    return array;
  }
  template <typename T>
  void take(int64_t count, T*& array, const T*& view) {
    array = take<T>(count);
    view = array;
  }

  int64_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* base_;
  int64_t size_bytes_ = 0;
};

void lay_out(Layout& layout, const Limits& limits, StepInput& input, StepArrays& arrays,
             StepView& view) {
  const int64_t rows = limits.max_rows;
  const int64_t tokens = limits.max_tokens;
  const int64_t table = rows * limits.max_pages_per_row;
  const int64_t chunks = max_chunks(limits);

  input.num_rows = layout.take<int32_t>(1);
  input.padded_rows = layout.take<int32_t>(1);
  input.rows = layout.take<Row>(rows);
  input.page_table = layout.take<int32_t>(table);
  input.num_checkpoints = layout.take<int32_t>(1);
  input.checkpoints = layout.take<Checkpoint>(limits.max_checkpoints);

  arrays.limits = limits;
  view.limits = limits;
  view.rows = input.rows;
  view.checkpoints = input.checkpoints;
  layout.take(1, arrays.counts, view.counts);
  layout.take(rows, arrays.kind, view.kind);
  layout.take(rows, arrays.query_len, view.query_len);
  layout.take(rows, arrays.context_len, view.context_len);
  layout.take(rows, arrays.seq_len, view.seq_len);
  layout.take(rows + 1, arrays.query_start_i32, view.query_start_i32);
  layout.take(rows + 1, arrays.query_start_i64, view.query_start_i64);
  layout.take(rows, arrays.pages_used, view.pages_used);
  layout.take(rows + 1, arrays.page_start, view.page_start);
  layout.take(rows, arrays.last_page_len, view.last_page_len);
  layout.take(table, arrays.page_table, view.page_table);
  layout.take(rows, arrays.initial_slot, view.initial_slot);
  layout.take(rows, arrays.final_slot, view.final_slot);
  layout.take(rows, arrays.has_initial_state, view.has_initial_state);
  layout.take(rows, arrays.num_accepted, view.num_accepted);
  layout.take(rows, arrays.decode_rows, view.decode_rows);
  layout.take(rows, arrays.verify_rows, view.verify_rows);
  layout.take(rows, arrays.prefill_rows, view.prefill_rows);
  layout.take(tokens, arrays.token_row, view.token_row);
  layout.take(tokens, arrays.token_position, view.token_position);
  layout.take(tokens, arrays.slot_mapping, view.slot_mapping);
  layout.take(tokens, arrays.token_permutation, view.token_permutation);
  layout.take(tokens, arrays.token_inverse, view.token_inverse);
  layout.take(rows + 1, arrays.chunk_start, view.chunk_start);
  layout.take(chunks, arrays.chunk_row, view.chunk_row);
  layout.take(chunks, arrays.chunk_token, view.chunk_token);
  layout.take(chunks, arrays.chunk_len, view.chunk_len);
  layout.take(tokens, arrays.logit_tokens, view.logit_tokens);
  layout.take(rows + 1, arrays.logit_start, view.logit_start);
  layout.take(limits.num_workers, arrays.split_workers, view.split_workers);
  layout.take(rows + 1, arrays.split_unit_start, view.split_unit_start);
  layout.take(rows + 1, arrays.split_partial_start, view.split_partial_start);
  arrays.group_start = layout.take<int32_t>(rows);
  arrays.pages_filled = layout.take<int32_t>(rows);
}

}  // namespace

int32_t max_chunks(const Limits& limits) {
  return max_chunks_of(limits.max_tokens, limits.max_rows);
}

Result<StepArena> StepArena::create(Device device, const Limits& limits) {
  HEADRACE_RETURN_IF_ERROR(check_limits(limits).with_context("step arena"));
  StepArena arena;
  Layout measure(nullptr);
  lay_out(measure, limits, arena.input_, arena.arrays_, arena.view_);
  auto buffer = Buffer::allocate_zeroed(device, static_cast<size_t>(measure.size_bytes()));
  if (!buffer.ok()) return buffer.status().with_context("step arena");
  arena.buffer_ = std::move(buffer).value();
  // Zeroed memory is a step without rows and a page table that is null throughout: pages_filled,
  // all zero, says so.
  Layout layout(arena.buffer_.as<std::byte>());
  lay_out(layout, limits, arena.input_, arena.arrays_, arena.view_);
  return arena;
}

}  // namespace headrace::metadata
