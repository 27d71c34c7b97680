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

// First unit of worker w's range; num_units for workers without work.
HEADRACE_HOST_DEVICE constexpr int32_t worker_begin(int32_t num_units, int32_t active, int32_t w) {
  return w >= active ? num_units
                     : static_cast<int32_t>(static_cast<int64_t>(num_units) * w / active);
}

// The worker whose range holds the unit: the largest w with worker_begin(w) ≤ unit.
HEADRACE_HOST_DEVICE constexpr int32_t worker_of(int32_t num_units, int32_t active, int32_t unit) {
  const int64_t scaled = (static_cast<int64_t>(unit) + 1) * active - 1;
  // A GPU divides 64-bit numbers many times slower than 32-bit ones.
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

// The pieces of one worker, in order:
//   SplitWalk walk(split, worker);
//   for (SplitPiece piece; walk.next(&piece);) ...
class SplitWalk {
 public:
  HEADRACE_HOST_DEVICE SplitWalk(const SplitView& split, int32_t worker)
      : split_(split), worker_(worker), num_units_(split.unit_start[split.num_rows]) {
    active_ = active_workers(split.shape, num_units_);
    unit_ = worker_begin(num_units_, active_, worker);
    end_ = worker_begin(num_units_, active_, worker + 1);
  }

  HEADRACE_HOST_DEVICE bool next(SplitPiece* piece) {
    if (unit_ >= end_) return false;
    const SplitShape& shape = split_.shape;
    // One search a worker; after that the next row with work is near.
    if (row_ < 0) {
      row_ = owner_of(split_.unit_start, split_.num_rows, unit_);
    } else {
      while (split_.unit_start[row_ + 1] <= unit_) ++row_;
    }
    const int32_t row_begin = split_.unit_start[row_];
    const int32_t row_end = split_.unit_start[row_ + 1];
    const int32_t stop = shape.fixed ? unit_ + 1 : min_i32(row_end, end_);
    const int32_t first = first_key(split_.context_len[row_], shape.window);
    const int32_t first_unit = first / shape.unit_tokens;

    piece->row = row_;
    piece->unit_begin = first_unit + unit_ - row_begin;
    piece->unit_end = first_unit + stop - row_begin;
    piece->key_begin = max_i32(first, piece->unit_begin * shape.unit_tokens);
    piece->key_end = stop == row_end ? split_.seq_len[row_] : piece->unit_end * shape.unit_tokens;
    const int32_t nth =
        shape.fixed ? unit_ - row_begin : worker_ - worker_of(num_units_, active_, row_begin);
    piece->partial = split_.partial_start[row_] + nth;
    piece->whole = split_.partial_start[row_ + 1] - split_.partial_start[row_] == 1;
    unit_ = stop;
    return true;
  }

 private:
  SplitView split_;
  int32_t worker_;
  int32_t num_units_;
  int32_t active_ = 0;
  int32_t row_ = -1;
  int32_t unit_ = 0;
  int32_t end_ = 0;
};

}  // namespace headrace::metadata
