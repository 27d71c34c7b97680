// SPDX-License-Identifier: Apache-2.0
// The public engine: a loop on a thread of its own and a mailbox before it. Callers touch the
// mailbox and the metrics board only; everything else belongs to the thread.
#pragma once

#include <functional>
#include <memory>

#include "engine/loop.h"
#include "engine/runner.h"
#include "headrace/engine.h"
#include "model/model.h"

namespace headrace::engine {

// What load() found and made.
struct EngineParts {
  std::unique_ptr<model::Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  // may be null
  Result<std::shared_ptr<const ChatTemplate>> chat_template = not_found("no chat template");
  ModelInfo model_info;
  EngineOptions options;  // no zeros
  int32_t num_slots = 0;
  // Called before the thread starts; tests hook into the pools and the cache here.
  std::function<void(EngineLoop&, Runner&)> before_start;
};

Result<std::unique_ptr<Engine>> start_engine(EngineParts parts);

}  // namespace headrace::engine
