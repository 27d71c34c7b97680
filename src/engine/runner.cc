// SPDX-License-Identifier: Apache-2.0
#include "engine/runner.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "metadata/index.h"

namespace headrace::engine {
namespace {

int32_t next_power_of_two(int32_t value) {
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(value)));
}

// 0 for 1, 1 for 2, 2 for 3 and 4, …
size_t bucket_index(int32_t size) {
  return static_cast<size_t>(std::bit_width(static_cast<uint32_t>(size) - 1u));
}

}  // namespace

Bucket bucket_of(int32_t rows, int32_t tokens, const metadata::Limits& limits) {
  return {std::min(next_power_of_two(rows), limits.max_rows),
          std::min(next_power_of_two(tokens), limits.max_tokens)};
}

metadata::Limits step_limits(const RunnerOptions& options) {
  metadata::Limits limits;
  limits.max_rows = options.max_rows;
  limits.max_tokens = options.max_tokens + 1;
  limits.page_size = options.page_size;
  limits.max_pages_per_row = metadata::pages_for(options.max_model_len, options.page_size);
  return limits;
}

Result<std::unique_ptr<Runner>> Runner::create(const model::Model& model,
                                               const RunnerOptions& options) {
  HEADRACE_ASSIGN_OR_RETURN(
      metadata::StepArena arena,
      metadata::StepArena::create(model.backend().device, step_limits(options)));
  model::CacheSpec spec;
  spec.num_pages = options.num_pages + 1;
  spec.page_size = options.page_size;
  spec.kv_dtype = options.kv_dtype;
  spec.num_slots = options.num_slots + 1;
  HEADRACE_ASSIGN_OR_RETURN(model::Cache cache, model::allocate_cache(model, spec));
  std::unique_ptr<Runner> runner(new Runner(model, options, std::move(arena), std::move(cache)));
  HEADRACE_RETURN_IF_ERROR(runner->allocate_buffers());
  for (int32_t rows = 1;; rows *= 2) {
    runner->graph_for(bucket_of(rows, rows, runner->arena_.limits()));
    if (rows >= options.max_rows) break;
  }
  return runner;
}

Runner::Runner(const model::Model& model, const RunnerOptions& options, metadata::StepArena arena,
               model::Cache cache)
    : model_(model),
      pool_(options.num_threads),
      stream_(pool_),
      arena_(std::move(arena)),
      cache_(std::move(cache)) {}

Status Runner::allocate_buffers() {
  const metadata::Limits& limits = arena_.limits();
  const Device device = model_.backend().device;
  const auto rows = static_cast<size_t>(limits.max_rows);
  const auto tokens = static_cast<size_t>(limits.max_tokens);
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  const auto allocate = [&](Buffer& buffer, size_t size_bytes) -> Status {
    HEADRACE_ASSIGN_OR_RETURN(buffer, Buffer::allocate_zeroed(device, size_bytes));
    return {};
  };
  HEADRACE_RETURN_IF_ERROR(allocate(token_ids_, tokens * sizeof(int32_t)));
  HEADRACE_RETURN_IF_ERROR(allocate(sampling_, rows * sizeof(ops::RowSampling)));
  HEADRACE_RETURN_IF_ERROR(allocate(logits_, rows * vocab * sizeof(float)));
  HEADRACE_RETURN_IF_ERROR(allocate(sampled_, rows * sizeof(int32_t)));
  HEADRACE_RETURN_IF_ERROR(
      allocate(workspace_, static_cast<size_t>(model_.workspace_bytes(limits))));
  graphs_.resize((bucket_index(limits.max_rows) + 1) * (bucket_index(limits.max_tokens) + 1));
  return {};
}

std::span<const int32_t> Runner::run(std::span<const RunnerRow> rows) {
  const metadata::Limits& limits = arena_.limits();
  HEADRACE_CHECK(!rows.empty() && rows.size() <= static_cast<size_t>(limits.max_rows),
                 std::to_string(rows.size()) + " rows");
  size_t num_tokens = 0;
  size_t num_emitting = 0;
  bool has_prefill = false;
  for (const RunnerRow& row : rows) {
    HEADRACE_CHECK(!row.token_ids.empty(), "a row without tokens");
    HEADRACE_CHECK(row.pages.size() <= static_cast<size_t>(limits.max_pages_per_row),
                   std::to_string(row.pages.size()) + " pages in a row");
    const size_t seq_len = static_cast<size_t>(row.context_len) + row.token_ids.size();
    HEADRACE_CHECK(seq_len <= row.pages.size() * static_cast<size_t>(limits.page_size),
                   std::to_string(row.pages.size()) + " pages for " + std::to_string(seq_len));
    has_prefill = has_prefill || row.token_ids.size() > 1 || row.context_len == 0;
    num_tokens += row.token_ids.size();
    num_emitting += row.emit ? 1 : 0;
  }
  HEADRACE_CHECK(num_tokens <= static_cast<size_t>(limits.max_tokens),
                 std::to_string(num_tokens) + " tokens");

  const Bucket bucket =
      bucket_of(static_cast<int32_t>(rows.size()), static_cast<int32_t>(num_tokens), limits);
  write_input(rows, bucket);
  if (has_prefill) {
    // Whoever joins comes with a prefill row. A steady step brings the same slots again, and the
    // full check allocates.
    const Status status = metadata::check_rows(arena_);
    HEADRACE_CHECK(status.ok(), status.message());
  }
  stream_.launch(graph_for(bucket));
  return {sampled_.as<int32_t>(), num_emitting};
}

void Runner::write_input(std::span<const RunnerRow> rows, const Bucket& bucket) {
  const metadata::StepInput& input = arena_.input();
  *input.num_rows = static_cast<int32_t>(rows.size());
  *input.padded_rows = bucket.rows;
  *input.num_checkpoints = 0;
  int32_t* token_ids = token_ids_.as<int32_t>();
  int32_t* page_table = input.page_table;
  for (size_t r = 0; r < rows.size(); ++r) {
    const RunnerRow& row = rows[r];
    input.rows[r] = {.query_len = static_cast<int32_t>(row.token_ids.size()),
                     .context_len = row.context_len,
                     .flags = row.emit ? metadata::kRowEmit : 0u,
                     // A fresh sequence starts from zeros, whatever its slot still holds.
                     .initial_slot = row.context_len > 0 ? row.slot : metadata::kNullSlot,
                     .final_slot = row.slot,
                     .num_pages = static_cast<int32_t>(row.pages.size())};
    std::copy(row.pages.begin(), row.pages.end(), page_table);
    page_table += arena_.limits().max_pages_per_row;
    token_ids = std::copy(row.token_ids.begin(), row.token_ids.end(), token_ids);
    sampling_.as<ops::RowSampling>()[r] = row.sampling;
  }
}

const CpuGraph& Runner::graph_for(const Bucket& bucket) {
  const size_t stride = bucket_index(arena_.limits().max_tokens) + 1;
  std::optional<CpuGraph>& graph =
      graphs_[bucket_index(bucket.rows) * stride + bucket_index(bucket.tokens)];
  if (!graph) graph = capture(bucket);
  return *graph;
}

CpuGraph Runner::capture(const Bucket& bucket) {
  // The same arrays with smaller maxima: what an op does for padding shrinks with the bucket.
  metadata::StepView step = arena_.view();
  step.limits.max_rows = bucket.rows;
  step.limits.max_tokens = bucket.tokens;
  model::StepIo io;
  io.token_ids = token_ids_.as<int32_t>();
  io.logits = logits_.as<float>();
  io.step = step;
  io.workspace = workspace_.data();
  ops::SampleParams sample;
  sample.logits = io.logits;
  sample.vocab = model_.config().vocab_size;
  sample.rows = sampling_.as<ops::RowSampling>();
  sample.token_ids = sampled_.as<int32_t>();
  sample.step = step;

  stream_.begin_capture();
  try {
    metadata::build(stream_, arena_);
    model_.forward(stream_, cache_, io);
    model_.backend().sample(stream_, sample);
  } catch (...) {
    stream_.end_capture();
    throw;
  }
  return stream_.end_capture();
}

size_t Runner::num_captured_graphs() const {
  return static_cast<size_t>(std::count_if(graphs_.begin(), graphs_.end(),
                                           [](const auto& graph) { return graph.has_value(); }));
}

}  // namespace headrace::engine
