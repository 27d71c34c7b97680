// SPDX-License-Identifier: Apache-2.0
// What the zeros in EngineOptions become: a pure function of the options, the model's sizes and the
// memory that is free. Errors name the option, its flag, and the value that would fit.
#pragma once

#include <cstdint>

#include "headrace/engine.h"
#include "headrace/status.h"

namespace headrace::engine {

struct ModelSizes {
  int32_t max_position_embeddings = 0;
  int64_t page_bytes = 0;  // one page of options.page_size tokens
  int64_t slot_bytes = 0;  // 0 for a model without GDN layers
};

struct EngineSizes {
  EngineOptions options;  // no zeros, except memory_bytes if it was
  int32_t num_slots = 0;
  bool is_context_cut = false;  // max_model_len is below the model's for lack of memory or pages
};

// Checks what does not depend on the model.
Status check_options(const EngineOptions& options);

// `available_bytes`: free memory now, after the weights were loaded.
Result<EngineSizes> resolve_sizes(const EngineOptions& options, const ModelSizes& model,
                                  int64_t available_bytes);

}  // namespace headrace::engine
