// SPDX-License-Identifier: Apache-2.0
// Drives the index functions of derive.h, split.h and advance.h by plain loops on the CPU. No rule
// lives here.
#include "base/check.h"
#include "metadata/advance.h"
#include "metadata/arena.h"
#include "metadata/build_split.h"
#include "metadata/derive.h"
#include "metadata/split.h"

namespace headrace::metadata {
namespace {

// Returns the number of partial results.
int32_t fill_partials(const SplitShape& shape, int32_t num_rows, const int32_t* unit_start,
                      int32_t* partial_start) {
  int32_t before = 0;
  for (int32_t r = 0; r < num_rows; ++r) {
    const int32_t own = partials_of_row(shape, unit_start, num_rows, r);
    write_start(partial_start, num_rows, r, before, own);
    before += own;
  }
  return before;
}

void fill_workers(const SplitView& split, SplitWorker* workers) {
  for (int32_t w = 0; w < split.shape.num_workers; ++w) {
    workers[w] = split_worker(split, w);
    place_partials(workers[w], split.partial_start);
  }
}

void derive_split(const StepView& step, const SplitShape& shape, const SplitArrays& out) {
  const int32_t num_rows = step.limits.max_rows;
  int32_t before = 0;
  for (int32_t r = 0; r < num_rows; ++r) {
    const int32_t own = units_of_row(shape, step, r);
    write_start(out.unit_start, num_rows, r, before, own);
    before += own;
  }
  fill_partials(shape, num_rows, out.unit_start, out.partial_start);
  fill_workers(split_view(step, shape, out), out.workers);
}

void derive_step(const StepInput& input, const StepArrays& out, const StepView& view) {
  const int32_t max_rows = out.limits.max_rows;
  const int32_t max_tokens = out.limits.max_tokens;
  const int32_t num_chunks_max = max_chunks(out.limits);

  RowSums total;
  for (int32_t r = 0; r < max_rows; ++r) total.add(sums_of(row_of(input, r), out.limits));
  RowSums before;
  for (int32_t r = 0; r < max_rows; ++r) {
    const Row row = row_of(input, r);
    const RowSums own = sums_of(row, out.limits);
    write_row(out, r, row, own, before, total);
    before.add(own);
  }
  for (int32_t t = 0; t < max_tokens; ++t) write_token(input, out, t, total);
  for (int32_t c = 0; c < num_chunks_max; ++c) write_chunk(out, c, total);
  for (int32_t i = 0; i < max_tokens; ++i) write_logit(out, i, total);
  for (int32_t r = 0; r < max_rows; ++r) {
    write_page_row(input, out, r, out.pages_used[r], 0, 1);
    out.pages_filled[r] = out.pages_used[r];
  }
  const int32_t num_partials = fill_partials(split_shape(out.limits), max_rows,
                                             out.split_unit_start, out.split_partial_start);
  fill_workers(split_view(view), out.split_workers);
  write_counts(input, out, total, num_partials);
}

CpuStream& cpu_stream(Stream& stream) {
  HEADRACE_CHECK(stream.device() == Device::kCpu, "metadata is built on the CPU only");
  return static_cast<CpuStream&>(stream);
}

}  // namespace

// Arguments are captured by value: the arrays stay where they are when the arena object is moved.
void build(Stream& stream, const StepArena& arena) {
  cpu_stream(stream).run([input = arena.input(), arrays = arena.arrays(),
                          view = arena.view()](ThreadPool&) { derive_step(input, arrays, view); });
}

void build_split(Stream& stream, const StepView& step, const SplitShape& shape,
                 const SplitArrays& out) {
  cpu_stream(stream).run([=](ThreadPool&) { derive_split(step, shape, out); });
}

int64_t split_arrays_bytes(const Limits& limits, const SplitShape& shape) {
  return shape.num_workers * static_cast<int64_t>(sizeof(SplitWorker)) +
         2 * (int64_t{limits.max_rows} + 1) * static_cast<int64_t>(sizeof(int32_t));
}

SplitArrays split_arrays_in(void* memory, const Limits& limits, const SplitShape& shape) {
  auto* workers = static_cast<SplitWorker*>(memory);
  auto* unit_start = reinterpret_cast<int32_t*>(workers + shape.num_workers);
  return {workers, unit_start, unit_start + limits.max_rows + 1};
}

void advance(Stream& stream, const AdvanceParams& params) {
  cpu_stream(stream).run([params](ThreadPool&) {
    advance_step(params);
    for (int32_t r = 0; r < params.step.limits.max_rows; ++r) advance_row(params, r);
  });
}

void place_tokens(Stream& stream, const PlaceTokensParams& params) {
  cpu_stream(stream).run([params](ThreadPool&) {
    for (int32_t t = 0; t < params.step.limits.max_tokens; ++t) place_token(params, t);
  });
}

}  // namespace headrace::metadata
