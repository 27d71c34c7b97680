// SPDX-License-Identifier: Apache-2.0
// One token from one row of logits. Order: temperature, top-k, top-p, draw. Knows nothing of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops_params.h"

namespace headrace::ops {

// The token for output position `sampling.output_position + draft`. Equal logits rank by id, lowest
// first, so that exactly top_k tokens pass and the argmax is unique. NaN counts as −inf;
// kNoUsableToken where nothing else is there.
// `scratch` is reused from call to call.
int32_t sample_token(const float* logits,  // [vocab]
                     int64_t vocab, const RowSampling& sampling, int32_t draft,
                     std::vector<int32_t>& scratch);

// A uniform number in (0, 1) that depends on nothing but its arguments.
double sampling_uniform(uint64_t seed, uint32_t choice_index, uint32_t output_position);

}  // namespace headrace::ops
