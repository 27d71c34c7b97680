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
  return w >= active ? num_units : mul_div(num_units, w, active);
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

// The arrays of one split, with what is needed to walk it.
struct SplitView {
  SplitShape shape;
  int32_t num_rows = 0;                    // R
  const int32_t* context_len = nullptr;    // [R]
  const int32_t* seq_len = nullptr;        // [R]
  const int32_t* unit_start = nullptr;     // [R + 1] units before row r
  const int32_t* partial_start = nullptr;  // [R + 1] partial results before row r
};

// A split made by build_split().
HEADRACE_HOST_DEVICE inline SplitView split_view(const StepView& step, const SplitShape& shape,
                                                 const int32_t* unit_start,
                                                 const int32_t* partial_start) {
  return SplitView{shape,        step.limits.max_rows, step.context_len,
                   step.seq_len, unit_start,           partial_start};
}

// The split that every step carries: all keys, balanced.
HEADRACE_HOST_DEVICE inline SplitView split_view(const StepView& step) {
  return split_view(step, split_shape(step.limits), step.split_unit_start,
                    step.split_partial_start);
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

// Where a worker's range begins, for who has found it by other means than SplitWalk's own search.
struct SplitStart {
  int32_t num_units = 0;  // of the step
  int32_t row = 0;        // that has the worker's first unit; any for a worker without work
  int32_t row_begin = 0;  // unit_start[row]
  int32_t row_end = 0;    // unit_start[row + 1]
};

// The pieces of one worker, in order:
//   SplitWalk walk(split, worker);
//   for (SplitPiece piece; walk.next(&piece);) ...
class SplitWalk {
 public:
  HEADRACE_HOST_DEVICE SplitWalk(const SplitView& split, int32_t worker)
      : SplitWalk(split, worker, find_start(split, worker)) {}
  HEADRACE_HOST_DEVICE SplitWalk(const SplitView& split, int32_t worker, const SplitStart& start)
      : split_(split), worker_(worker), start_(start) {
    active_ = active_workers(split.shape, start.num_units);
    unit_ = worker_begin(start.num_units, active_, worker);
    end_ = worker_begin(start.num_units, active_, worker + 1);
  }

  HEADRACE_HOST_DEVICE bool next(SplitPiece* piece) {
    if (unit_ >= end_) return false;
    const SplitShape& shape = split_.shape;
    SplitStart& at = start_;
    // One search a worker; after that the next row with work is near.
    while (at.row_end <= unit_) {
      ++at.row;
      at.row_begin = at.row_end;
      at.row_end = split_.unit_start[at.row + 1];
    }
    const int32_t stop = shape.fixed ? unit_ + 1 : min_i32(at.row_end, end_);
    // Lengths are loaded only where they are needed: a kernel waits for each load.
    int32_t first = 0;
    int32_t first_unit = 0;
    if (shape.window != 0) {
      first = first_key(split_.context_len[at.row], shape.window);
      first_unit = first / shape.unit_tokens;
    }

    piece->row = at.row;
    piece->unit_begin = first_unit + unit_ - at.row_begin;
    piece->unit_end = first_unit + stop - at.row_begin;
    piece->key_begin = max_i32(first, piece->unit_begin * shape.unit_tokens);
    piece->key_end =
        stop == at.row_end ? split_.seq_len[at.row] : piece->unit_end * shape.unit_tokens;
    const int32_t nth = shape.fixed ? unit_ - at.row_begin
                                    : worker_ - worker_of(start_.num_units, active_, at.row_begin);
    piece->partial = split_.partial_start[at.row] + nth;
    piece->whole = split_.partial_start[at.row + 1] - split_.partial_start[at.row] == 1;
    unit_ = stop;
    return true;
  }

 private:
  HEADRACE_HOST_DEVICE static SplitStart find_start(const SplitView& split, int32_t worker) {
    SplitStart start{.num_units = split.unit_start[split.num_rows]};
    const int32_t active = active_workers(split.shape, start.num_units);
    const int32_t unit = worker_begin(start.num_units, active, worker);
    if (unit == start.num_units) return start;
    start.row = owner_of(split.unit_start, split.num_rows, unit);
    start.row_begin = split.unit_start[start.row];
    start.row_end = split.unit_start[start.row + 1];
    return start;
  }

  SplitView split_;
  int32_t worker_;
  SplitStart start_;  // row and its units move on with the walk
  int32_t active_ = 0;
  int32_t unit_ = 0;
  int32_t end_ = 0;
};

}  // namespace headrace::metadata
