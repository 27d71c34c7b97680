// SPDX-License-Identifier: Apache-2.0
// Runs sequences through Model::forward by hand, without an engine: a test says which rows stand in
// a step, the driver keeps pages, slots and lengths. Everything that must not be read is NaN or
// garbage: unused pages, unused slots, page 0, slot 0, the workspace, token ids past the step's.
//
//   ModelDriver driver(model, {.page_size = 16});
//   const int s = driver.add_sequence();
//   Logits last = driver.prefill(s, prompt, 64);
//   last = driver.step({{.sequence = s, .tokens = {argmax(last)}}}).front().back();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "metadata/arena.h"
#include "model/model.h"
#include "tensor/stream.h"

namespace headrace::test {

using Logits = std::vector<float>;  // [vocab]

struct DriverOptions {
  int32_t page_size = 16;
  DType kv_dtype = DType::kF32;
  int32_t max_rows = 8;
  int32_t max_tokens = 512;
  int32_t max_len = 1024;  // of a sequence
  int32_t max_window = 0;  // tokens of a verify row
  int num_threads = 1;
  // The step is captured once and replayed, padded to max_rows; otherwise it runs eagerly.
  bool replay = false;
};

struct DriverRow {
  int sequence = -1;                 // −1: a padding row
  std::vector<int32_t> tokens = {};  // new ones
  int32_t num_drafts = 0;            // the last num_drafts of tokens are drafts
  bool emit = true;
  std::vector<int32_t> checkpoints = {};  // positions (multiples of 64) whose state is kept
};

class ModelDriver {
 public:
  // Errors are thrown as std::runtime_error.
  ModelDriver(const model::Model& model, const DriverOptions& options);

  int add_sequence();
  // Its pages and slot become free and are filled with NaN.
  void release(int sequence);
  // A second sequence with the same history: pages and slot are copied.
  int fork(int sequence);
  // A sequence that goes on from a kept state: pages are copied, the state is read from the
  // checkpoint's slot and written to a slot of its own.
  int resume(int sequence, int32_t position);
  int32_t length(int sequence) const { return sequences_[static_cast<size_t>(sequence)].length; }

  // One forward pass. For each row, the logits of each of its logit tokens. A row without drafts
  // moves its sequence on by its tokens; one with drafts waits for accept().
  std::vector<std::vector<Logits>> step(const std::vector<DriverRow>& rows);
  // Of the last verify row of the sequence, the first `num_tokens` (1 … 1 + drafts) are kept.
  void accept(int sequence, int32_t num_tokens);

  // Feeds the tokens in chunks of at most `chunk_tokens`; logits of the last.
  Logits prefill(int sequence, const std::vector<int32_t>& tokens, int32_t chunk_tokens);

  // What the cache holds for a sequence. `index` counts layers of that kind.
  std::vector<float> keys(int sequence, int32_t index) const;         // [length, Hkv, D]
  std::vector<float> values(int sequence, int32_t index) const;       // [length, Hkv, D]
  std::vector<float> conv_window(int sequence, int32_t index) const;  // [W − 1, conv_dim]
  std::vector<float> state(int sequence, int32_t index) const;        // [Hv, V, K]
  // All of the above, of all layers, one after the other.
  std::vector<float> everything(int sequence) const;

  const model::Model& model() const { return model_; }

 private:
  struct Sequence {
    std::vector<int32_t> pages;
    int32_t slot = 0;
    int32_t length = 0;
    int32_t num_accepted = 0;                // of the pending window in its slot
    int32_t window = 0;                      // tokens of a verify row that waits for accept()
    int32_t checkpoint = 0;                  // slot to start from; 0 = its own
    std::map<int32_t, int32_t> checkpoints;  // position → slot
    bool live = false;
  };

  Sequence& live(int sequence);
  void grow(Sequence& sequence, int32_t num_tokens);
  int32_t take_slot();
  void copy_pages(const Sequence& from, Sequence& to, int32_t num_tokens);
  void poison_slot(int32_t slot);
  void add_checkpoints(const std::vector<DriverRow>& rows);
  void fill_input(const std::vector<DriverRow>& rows);
  void submit();
  std::vector<float> kv(int sequence, int32_t index, bool value) const;

  const model::Model& model_;
  DriverOptions options_;
  ThreadPool pool_;
  CpuStream stream_;
  metadata::StepArena arena_;
  model::Cache cache_;
  Buffer workspace_;
  std::vector<int32_t> token_ids_;
  std::vector<float> logits_;
  model::StepIo io_;
  CpuGraph graph_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> free_pages_;
  std::vector<int32_t> free_slots_;
};

// Of equals the lowest.
int32_t argmax(const Logits& logits);
// Best less second best.
float gap(const Logits& logits);
double max_abs_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace headrace::test
