// SPDX-License-Identifier: Apache-2.0
// Attention as the equation reads: one query and one head at a time, fp32. The oracle of the fast
// paths and what runs on processors without AVX2.
#pragma once

#include "attention/attention_params.h"
#include "base/thread_pool.h"

namespace headrace::attention {

void attention_reference(const AttentionParams& params, ThreadPool& pool);

}  // namespace headrace::attention
