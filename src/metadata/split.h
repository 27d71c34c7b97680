// SPDX-License-Identifier: Apache-2.0
// The split of the decode work: which worker (thread block, thread) takes which keys of which row.
// Index arithmetic on lengths only; tiles and kernels are attention's business. docs/metadata.md
// draws an example.
//
// A decode or verify row has one unit of work for each unit_tokens key positions, counted from
// position 0. The units of all rows, in row order, form one line of U units; worker w of the
// A = min(W, U) that have work takes units [U·w/A, U·(w+1)/A) of it. So no worker has more than one
// unit more than another, no list of work is stored, and the row of a unit is found by binary
// search. A row that lies in the ranges of k workers has k partial results to be merged, in the
// order of their indices, which is the order of its keys.
#pragma once

#include <cstdint>

#include "metadata/host_device.h"
#include "metadata/index.h"
#include "metadata/step.h"

namespace headrace::metadata {

// What one group of layers wants. Groups with another window have another split.
struct SplitShape {
  int32_t num_workers = 1;  // W
  int32_t unit_tokens = 64;
  int32_t window = 0;  // keys that a query sees, itself included; 0 = all
  // Every unit makes a partial result of its own (so a unit is wide here, say 1024). Then how a row
  // is cut, and so the rounding of its result, does not depend on the rest of the batch or on the
  // number of workers.
  bool fixed = false;
};

HEADRACE_HOST_DEVICE constexpr SplitShape split_shape(const Limits& limits) {
  return SplitShape{limits.num_workers, limits.split_tokens, 0, false};
}

// The first key that any query of the row sees.
HEADRACE_HOST_DEVICE constexpr int32_t first_key(int32_t context_len, int32_t window) {
  return window == 0 || context_len < window ? 0 : context_len - window + 1;
}

// Units of a row; rows of other kinds than decode and verify have none.
HEADRACE_HOST_DEVICE constexpr int32_t split_units(const SplitShape& shape, RowKind kind,
                                                   int32_t context_len, int32_t seq_len) {
  if (kind != RowKind::kDecode && kind != RowKind::kVerify) return 0;
  return ceil_div(seq_len, shape.unit_tokens) -
         first_key(context_len, shape.window) / shape.unit_tokens;
}

// A: workers that have work. All of these have some, so a row's workers are consecutive.
HEADRACE_HOST_DEVICE constexpr int32_t active_workers(const SplitShape& shape, int32_t num_units) {
  return min_i32(shape.num_workers, num_units);
}

// a · b / c, rounded down, for results that fit. A GPU divides 64-bit numbers many times slower
// than 32-bit ones.
HEADRACE_HOST_DEVICE constexpr int32_t mul_div(int32_t a, int32_t b, int32_t c) {
  const int64_t product = static_cast<int64_t>(a) * b;
  return product <= INT32_MAX ? static_cast<int32_t>(product) / c
                              : static_cast<int32_t>(product / c);
}

// First unit of worker w's range; num_units for workers without work.
HEADRACE_HOST_DEVICE constexpr int32_t worker_begin(int32_t num_units, int32_t active, int32_t w) {
  if (w >= active) return num_units;
  return num_units == active ? w : mul_div(num_units, w, active);
}

// The worker whose range holds the unit: the largest w with worker_begin(w) ≤ unit.
HEADRACE_HOST_DEVICE constexpr int32_t worker_of(int32_t num_units, int32_t active, int32_t unit) {
  const int64_t scaled = (static_cast<int64_t>(unit) + 1) * active - 1;
  return scaled <= INT32_MAX ? static_cast<int32_t>(scaled) / num_units
                             : static_cast<int32_t>(scaled / num_units);
}

// Partial results of a row that owns units [unit_begin, unit_end) of num_units.
HEADRACE_HOST_DEVICE constexpr int32_t split_partials(const SplitShape& shape, int32_t unit_begin,
                                                      int32_t unit_end, int32_t num_units) {
  if (unit_begin == unit_end) return 0;
  if (shape.fixed) return unit_end - unit_begin;
  const int32_t active = active_workers(shape, num_units);
  return worker_of(num_units, active, unit_end - 1) - worker_of(num_units, active, unit_begin) + 1;
}

// The two prefix sums of a split, one row at a time; a driver scans the numbers in between.
HEADRACE_HOST_DEVICE inline int32_t units_of_row(const SplitShape& shape, const StepView& step,
                                                 int32_t r) {
  return split_units(shape, step.kind[r], step.context_len[r], step.seq_len[r]);
}
HEADRACE_HOST_DEVICE inline int32_t partials_of_row(const SplitShape& shape,
                                                    const int32_t* unit_start, int32_t num_rows,
                                                    int32_t r) {
  return split_partials(shape, unit_start[r], unit_start[r + 1], unit_start[num_rows]);
}
// Row r's entry of a prefix sum [R + 1]; the last row writes the total too.
template <typename T>
HEADRACE_HOST_DEVICE inline void write_start(T* starts, int32_t num_rows, int32_t r, int32_t before,
                                             int32_t own) {
  starts[r] = before;
  if (r == num_rows - 1) starts[r + 1] = before + own;
}

// Bound of the partial results of any step, from maxima alone: it sizes the workspace.
// Balanced: each row has one, and each edge between two workers adds at most one.
HEADRACE_HOST_DEVICE constexpr int64_t max_partials(const Limits& limits, const SplitShape& shape) {
  const int64_t rows = min_i32(limits.max_rows, limits.max_tokens);
  if (!shape.fixed) return rows + shape.num_workers - 1;
  const int64_t max_seq_len = static_cast<int64_t>(limits.max_pages_per_row) * limits.page_size;
  return rows * ((max_seq_len + shape.unit_tokens - 1) / shape.unit_tokens);
}

// A piece of one row's keys, computed by one worker into one partial result.
struct SplitPiece {
  int32_t row = 0;
  int32_t unit_begin = 0;  // units of the row, counted from key position 0
  int32_t unit_end = 0;
  int32_t key_begin = 0;  // key positions; key_end is seq_len in the row's last piece
  int32_t key_end = 0;
  int32_t partial = 0;  // index of the partial result, below max_partials()
  bool whole = false;   // the row has no other piece: the partial result is the result
};

// How a worker begins: its range of units and all that its first piece needs, in one line of
// memory. A kernel waits for each load; who searches for its row and then looks it up waits three
// times. All zero for a worker without work.
struct alignas(64) SplitWorker {
  int32_t num_units = 0;   // of the step
  int32_t unit_begin = 0;  // of the line of all rows' units
  int32_t first_end = 0;   // end of the first piece
  int32_t unit_end = 0;
  int32_t row = 0;           // of the first piece
  int32_t row_begin = 0;     // unit_start[row]
  int32_t row_end = 0;       // unit_start[row + 1]
  int32_t key_begin = 0;     // the piece's key positions
  int32_t key_end = 0;       //
  int32_t partial = 0;       // index of the piece's partial result
  int32_t row_partial = 0;   // index of the row's first
  int32_t row_partials = 0;  // the row has so many
  int32_t context_len = 0;   // of the row
  int32_t query_len = 0;
  int32_t query_start = 0;  // first token of the row in the step
  int32_t reserved = 0;

  HEADRACE_HOST_DEVICE bool has_work() const { return unit_begin < unit_end; }
};

// The arrays of one split. R as in StepView, W = shape.num_workers.
struct SplitArrays {
  SplitWorker* workers = nullptr;    // [W]
  int32_t* unit_start = nullptr;     // [R + 1] units before row r
  int32_t* partial_start = nullptr;  // [R + 1] partial results before row r
};

// The same, read-only, with what is needed to walk the split.
struct SplitView {
  SplitShape shape;
  int32_t num_rows = 0;                    // R
  const SplitWorker* workers = nullptr;    // [W]
  const int32_t* unit_start = nullptr;     // [R + 1]
  const int32_t* partial_start = nullptr;  // [R + 1]
  const int32_t* seq_len = nullptr;        // [R]
  const int32_t* context_len = nullptr;    // [R]
  const int32_t* query_len = nullptr;      // [R]
  const int32_t* query_start = nullptr;    // [R + 1]
};

// A split made by build_split().
HEADRACE_HOST_DEVICE inline SplitView split_view(const StepView& step, const SplitShape& shape,
                                                 const SplitArrays& arrays) {
  return {.shape = shape,
          .num_rows = step.limits.max_rows,
          .workers = arrays.workers,
          .unit_start = arrays.unit_start,
          .partial_start = arrays.partial_start,
          .seq_len = step.seq_len,
          .context_len = step.context_len,
          .query_len = step.query_len,
          .query_start = step.query_start_i32};
}

// The split that every step carries: all keys, balanced.
HEADRACE_HOST_DEVICE inline SplitView split_view(const StepView& step) {
  return {.shape = split_shape(step.limits),
          .num_rows = step.limits.max_rows,
          .workers = step.split_workers,
          .unit_start = step.split_unit_start,
          .partial_start = step.split_partial_start,
          .seq_len = step.seq_len,
          .context_len = step.context_len,
          .query_len = step.query_len,
          .query_start = step.query_start_i32};
}

// Keys of the units [unit, stop) of a row that owns [row_begin, row_end) of the line.
struct SplitKeys {
  int32_t first_unit = 0;  // of the row that any query sees
  int32_t begin = 0;
  int32_t end = 0;
};
HEADRACE_HOST_DEVICE inline SplitKeys split_keys(const SplitView& split, int32_t row,
                                                 int32_t row_begin, int32_t row_end, int32_t unit,
                                                 int32_t stop) {
  const SplitShape& shape = split.shape;
  // Lengths are loaded only where they are needed: a kernel waits for each load.
  int32_t first = 0;
  SplitKeys keys;
  if (shape.window != 0) {
    first = first_key(split.context_len[row], shape.window);
    keys.first_unit = first / shape.unit_tokens;
  }
  keys.begin = max_i32(first, (keys.first_unit + unit - row_begin) * shape.unit_tokens);
  keys.end = stop == row_end ? split.seq_len[row]
                             : (keys.first_unit + stop - row_begin) * shape.unit_tokens;
  return keys;
}

// The entry of a worker with the range [unit, end), but for what partial_start has: until
// place_partials() is called, `partial` counts from the row's first. Divisions are what takes a GPU
// long here.
HEADRACE_HOST_DEVICE inline SplitWorker split_worker(const SplitView& split, int32_t worker,
                                                     int32_t unit, int32_t end) {
  const SplitShape& shape = split.shape;
  SplitWorker begin;
  if (unit == end) return begin;
  const int32_t num_units = split.unit_start[split.num_rows];
  begin.num_units = num_units;
  begin.unit_begin = unit;
  begin.unit_end = end;
  begin.row = owner_of(split.unit_start, split.num_rows, unit);
  begin.row_begin = split.unit_start[begin.row];
  begin.row_end = split.unit_start[begin.row + 1];
  begin.first_end = shape.fixed ? unit + 1 : min_i32(begin.row_end, end);
  const SplitKeys keys =
      split_keys(split, begin.row, begin.row_begin, begin.row_end, unit, begin.first_end);
  begin.key_begin = keys.begin;
  begin.key_end = keys.end;
  if (unit > begin.row_begin) {
    begin.partial = shape.fixed ? unit - begin.row_begin
                                : worker - worker_of(num_units, active_workers(shape, num_units),
                                                     begin.row_begin);
  }
  begin.context_len = split.context_len[begin.row];
  begin.query_len = split.query_len[begin.row];
  begin.query_start = split.query_start[begin.row];
  return begin;
}
HEADRACE_HOST_DEVICE inline SplitWorker split_worker(const SplitView& split, int32_t worker) {
  const int32_t num_units = split.unit_start[split.num_rows];
  const int32_t active = active_workers(split.shape, num_units);
  return split_worker(split, worker, worker_begin(num_units, active, worker),
                      worker_begin(num_units, active, worker + 1));
}
HEADRACE_HOST_DEVICE inline void place_partials(SplitWorker& begin, const int32_t* partial_start) {
  if (!begin.has_work()) return;
  begin.row_partial = partial_start[begin.row];
  begin.row_partials = partial_start[begin.row + 1] - begin.row_partial;
  begin.partial += begin.row_partial;
}

// The pieces of one worker, in order:
//   SplitWalk walk(split, worker);
//   for (SplitPiece piece; walk.next(&piece);) ...
// or, where the search and the loads of the first piece would be waited for,
//   const SplitWorker begin = split.workers[worker];   // one load; it describes the first piece
//   SplitWalk walk(split, worker, begin);              // goes on with the second
class SplitWalk {
 public:
  HEADRACE_HOST_DEVICE SplitWalk(const SplitView& split, int32_t worker)
      : split_(split), worker_(worker), num_units_(split.unit_start[split.num_rows]) {
    active_ = active_workers(split.shape, num_units_);
    unit_ = worker_begin(num_units_, active_, worker);
    end_ = worker_begin(num_units_, active_, worker + 1);
    if (unit_ == end_) return;
    row_ = owner_of(split.unit_start, split.num_rows, unit_);
    row_begin_ = split.unit_start[row_];
    row_end_ = split.unit_start[row_ + 1];
  }
  // Goes on behind the first piece.
  HEADRACE_HOST_DEVICE SplitWalk(const SplitView& split, int32_t worker, const SplitWorker& begin)
      : split_(split),
        worker_(worker),
        num_units_(begin.num_units),
        active_(active_workers(split.shape, begin.num_units)),
        unit_(begin.first_end),
        end_(begin.unit_end),
        row_(begin.row),
        row_begin_(begin.row_begin),
        row_end_(begin.row_end) {}

  HEADRACE_HOST_DEVICE bool next(SplitPiece* piece) {
    if (unit_ >= end_) return false;
    const SplitShape& shape = split_.shape;
    // One search a worker; after that the next row with work is near.
    while (row_end_ <= unit_) {
      ++row_;
      row_begin_ = row_end_;
      row_end_ = split_.unit_start[row_ + 1];
    }
    const int32_t stop = shape.fixed ? unit_ + 1 : min_i32(row_end_, end_);
    const SplitKeys keys = split_keys(split_, row_, row_begin_, row_end_, unit_, stop);
    piece->row = row_;
    piece->unit_begin = keys.first_unit + unit_ - row_begin_;
    piece->unit_end = keys.first_unit + stop - row_begin_;
    piece->key_begin = keys.begin;
    piece->key_end = keys.end;
    const int32_t nth =
        shape.fixed ? unit_ - row_begin_ : worker_ - worker_of(num_units_, active_, row_begin_);
    piece->partial = split_.partial_start[row_] + nth;
    piece->whole = split_.partial_start[row_ + 1] - split_.partial_start[row_] == 1;
    unit_ = stop;
    return true;
  }

 private:
  SplitView split_;
  int32_t worker_;
  int32_t num_units_ = 0;  // of the step
  int32_t active_ = 0;
  int32_t unit_ = 0;  // next unit of the worker's range
  int32_t end_ = 0;
  int32_t row_ = 0;  // that has it, or one before
  int32_t row_begin_ = 0;
  int32_t row_end_ = 0;
};

}  // namespace headrace::metadata
