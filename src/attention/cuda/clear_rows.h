// SPDX-License-Identifier: Apache-2.0
// Zeros (log-sum-exp −inf) for the tokens of rows that have no keys, after attention has run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

// keyless: [R] 1 for a row whose tokens are cleared. Capturable.
Status launch_clear_rows(cudaStream_t stream, const AttentionParams& params,
                         const uint8_t* keyless);

}  // namespace headrace::attention
