// SPDX-License-Identifier: Apache-2.0
// Where the layers of a model find their part of a page and of a slot. A page holds, layer after
// layer, K and V as [2, page_size, Hkv, D]; a slot holds, layer after layer, what
// gdn/slot_layout.h says. Whole pages and slots are contiguous, so that they can be copied, moved
// or poisoned without knowing the model.
#pragma once

#include <cstdint>

#include "attention/attention_params.h"
#include "gdn/gdn_params.h"
#include "model/model.h"

namespace headrace::model {

int64_t page_bytes(const ModelConfig& config, const CacheSpec& spec);
int64_t slot_bytes(const ModelConfig& config, const CacheSpec& spec);

// `index` counts layers of that kind.
attention::KvCache kv_cache_of_layer(const ModelConfig& config, Cache& cache, int32_t index);
gdn::SlotPool slot_pool_of_layer(const ModelConfig& config, Cache& cache, int32_t index);

}  // namespace headrace::model
