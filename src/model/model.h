// SPDX-License-Identifier: Apache-2.0
// A loaded model: weights on a backend, and the list of ops of one step. It knows kernels and not
// scheduling: it sees rows, pages and slots only through the step's metadata.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "headrace/status.h"
#include "metadata/step.h"
#include "model/config.h"
#include "ops/backend.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace headrace::model {

// Memory for pages and slots of all layers. Owned by the runner, laid out by the model.
struct CacheSpec {
  int32_t num_pages = 0;   // null page included
  int32_t page_size = 16;  // tokens
  DType kv_dtype = DType::kF32;
  int32_t num_slots = 0;   // null slot included
  int32_t max_window = 0;  // tokens of a verify window (1 + drafts); 0 = no verify rows
};

struct Cache {
  CacheSpec spec;
  Buffer pages;  // page_bytes() · num_pages
  Buffer slots;  // slot_bytes() · num_slots
};

// What one step reads and writes besides the cache. All device memory, fixed for the life of a
// captured graph.
struct StepIo {
  const int32_t* token_ids = nullptr;  // [T]
  float* logits = nullptr;             // [L, vocab], L = logit tokens
  metadata::StepView step;
  void* workspace = nullptr;  // workspace_bytes(limits)
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const ops::Backend& backend() const = 0;

  // Bytes of one page (K and V of all attention layers) and of one slot (all GDN layers).
  virtual int64_t page_bytes(const CacheSpec& spec) const = 0;
  virtual int64_t slot_bytes(const CacheSpec& spec) const = 0;
  virtual int64_t weight_bytes() const = 0;  // as held in memory by the backend

  // Activations and scratch for a step of at most these sizes.
  virtual int64_t workspace_bytes(const metadata::Limits& limits) const = 0;

  // Submits the ops of one step: embedding → layers → logits. Runs or is captured; what may change
  // between replays is read from io.step's arrays.
  virtual void forward(Stream& stream, Cache& cache, const StepIo& io) const = 0;
};

// `page_bytes`, `slot_bytes` and zeroed memory for them.
Result<Cache> allocate_cache(const Model& model, const CacheSpec& spec);

enum class WeightSource { kSafetensors, kDummy };

struct LoadOptions {
  std::string folder;
  WeightSource source = WeightSource::kSafetensors;
  uint64_t dummy_seed = 0;
  // Matrices are kept as they lie in the checkpoint, or converted to `dtype`.
  bool keep_dtype = true;
  DType dtype = DType::kBF16;  // used when keep_dtype is false
};

// Reads config.json and the weights, and builds the model of the architecture it names. Errors name
// the file and the tensor or key.
Result<std::unique_ptr<Model>> load_model(const LoadOptions& options, const ops::Backend& backend);

}  // namespace headrace::model
