// SPDX-License-Identifier: Apache-2.0
// Runs steps: writes the input arrays, replays the captured graph of the step's bucket
// (metadata → model → sampler) and returns the sampled tokens. It owns the memory that a step
// touches. It knows rows, not requests, and takes no decision.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "headrace/status.h"
#include "metadata/arena.h"
#include "model/model.h"
#include "ops/ops_params.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace headrace::engine {

struct RunnerOptions {
  int32_t max_rows = 16;
  int32_t max_tokens = 512;  // token budget of a step
  int32_t max_model_len = 0;
  int32_t page_size = 16;
  int32_t num_pages = 0;  // without the null page
  int32_t num_slots = 0;  // without the null slot
  DType kv_dtype = DType::kF32;
  int32_t num_threads = 0;  // 0 = the cores this process may use
};

struct RunnerRow {
  std::span<const int32_t> token_ids;  // of this step, at least one
  std::span<const int32_t> pages;      // page table, enough for context and tokens
  int32_t context_len = 0;
  int32_t slot = 0;
  bool emit = false;          // sample a token after the last one
  ops::RowSampling sampling;  // read if emit
};

// Graphs are captured for these sizes: the next power of two of a step's rows and tokens, or the
// maximum where that is smaller.
struct Bucket {
  int32_t rows = 0;
  int32_t tokens = 0;
  bool operator==(const Bucket&) const = default;
};
Bucket bucket_of(int32_t rows, int32_t tokens, const metadata::Limits& limits);

// Tokens a step may hold: the scheduler's chunks may pass the budget by one.
metadata::Limits step_limits(const RunnerOptions& options);

class Runner {
 public:
  // `model` must outlive the runner. The graphs of decode steps are captured here, others when
  // first needed.
  static Result<std::unique_ptr<Runner>> create(const model::Model& model,
                                                const RunnerOptions& options);

  // One token for each row that emits, in row order; valid until the next call. Throws
  // InternalError when the rows break a rule of the step or an op fails; the runner can be used
  // again afterwards, the cache of those rows is undefined.
  std::span<const int32_t> run(std::span<const RunnerRow> rows);

  // Pages and slots, for tests that poison what is free.
  model::Cache& cache() { return cache_; }
  const ThreadPool& pool() const { return pool_; }
  size_t num_captured_graphs() const;

 private:
  Runner(const model::Model& model, const RunnerOptions& options, metadata::StepArena arena,
         model::Cache cache);
  Status allocate_buffers();
  void write_input(std::span<const RunnerRow> rows, const Bucket& bucket);
  const CpuGraph& graph_for(const Bucket& bucket);
  CpuGraph capture(const Bucket& bucket);

  const model::Model& model_;
  ThreadPool pool_;
  CpuStream stream_;
  metadata::StepArena arena_;
  model::Cache cache_;
  Buffer token_ids_;  // [T] int32, input
  Buffer sampling_;   // [R] ops::RowSampling, input
  Buffer logits_;     // [R, vocab] float
  Buffer sampled_;    // [R] int32, output
  Buffer workspace_;
  std::vector<std::optional<CpuGraph>> graphs_;  // [log2 of rows, log2 of tokens]
};

}  // namespace headrace::engine
