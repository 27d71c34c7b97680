// SPDX-License-Identifier: Apache-2.0
// The engine: loads a model and runs requests with continuous batching on a thread of its own.
//
//   auto engine = headrace::Engine::load({.model = "models/demo"});
//   auto id = (*engine)->submit({.prompt_token_ids = ids}, [](const RequestUpdate& u) { … });
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "headrace/dtype.h"
#include "headrace/metrics.h"
#include "headrace/model_info.h"
#include "headrace/request.h"
#include "headrace/status.h"
#include "headrace/tokenizer.h"

namespace headrace {

enum class LoadFormat {
  kSafetensors,
  kDummy,  // seeded random weights from config.json alone; no tokenizer needed
};

enum class DeviceChoice {
  kAuto,  // the CPU, in this version
  kCpu,
  kCuda,  // kInvalidArgument in this version; the message says what this machine lacks besides
};

// Zero means "choose": the engine sizes it from the model and the memory that is free.
struct EngineOptions {
  std::string model = {};  // folder
  LoadFormat load_format = LoadFormat::kSafetensors;
  uint64_t dummy_seed = 0;
  DeviceChoice device = DeviceChoice::kAuto;
  // Type of weights and KV cache; empty = weights as they lie in the checkpoint and an fp32 KV
  // cache. The CPU backend computes in fp32 whatever this says.
  std::optional<DType> dtype = {};
  int32_t num_threads = 0;               // 0 = cores this process may use
  int32_t max_model_len = 0;             // prompt + generated; 0 = the model's
  int32_t page_size = 16;                // tokens; 1, 8 or a multiple of 16 up to 1024
  int32_t num_pages = 0;                 // without the null page
  int32_t max_num_seqs = 16;             // rows of a step
  int32_t max_num_batched_tokens = 512;  // token budget of a step
  int32_t max_queued_requests = 1024;
  int64_t memory_bytes = 0;  // for pages and slots together; 0 = from free memory
};

class Engine {
 public:
  // Blocks until the model is ready. Errors name the option to change and to which value.
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options);

  // Cancels what still runs and joins the engine thread.
  virtual ~Engine() = default;

  // Thread-safe. Checks the request at once: a prompt that can never fit is kInvalidArgument, a
  // full queue kResourceExhausted. The callback is called until an update with finish != kNone.
  virtual Result<RequestId> submit(Request request, UpdateCallback callback) = 0;
  // Thread-safe; false if the request is unknown or done. Its last update comes within one step.
  virtual bool cancel(RequestId id) = 0;
  // Blocks until nothing runs and nothing waits.
  virtual void wait_idle() = 0;

  virtual MetricsSnapshot metrics() const = 0;
  virtual const ModelInfo& model_info() const = 0;
  // Null when the folder has none (possible only with LoadFormat::kDummy).
  virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;
  // kNotFound when the folder has none.
  virtual Result<std::shared_ptr<const ChatTemplate>> chat_template() const = 0;
  // What the zeros in the options became.
  virtual const EngineOptions& resolved_options() const = 0;
};

}  // namespace headrace
