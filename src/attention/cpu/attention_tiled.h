// SPDX-License-Identifier: Apache-2.0
// Attention by blocks of queries and tiles of keys, for processors with AVX2.
#pragma once

#include "attention/attention_params.h"
#include "base/thread_pool.h"

namespace headrace::attention {

void attention_tiled(const AttentionParams& params, ThreadPool& pool);

}  // namespace headrace::attention
