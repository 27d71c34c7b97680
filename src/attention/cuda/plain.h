// SPDX-License-Identifier: Apache-2.0
// The plain attention path on the GPU: every head dim, element type, stride, alignment, page size
// and kind of row, in fp32, for correctness only. What it takes the faster paths need not.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "attention/attention_params.h"
#include "attention/cuda/row_set.h"
#include "headrace/status.h"

namespace headrace::attention {

using PlainKernel = void (*)(AttentionParams, RowSet);

struct PlainLaunch {
  AttentionParams params;
  RowSet rows = RowSet::kAll;
  PlainKernel kernel = nullptr;
};

// "plain fp32, KV fp32, D 32, all rows"
std::string to_string(const PlainLaunch& launch);

// kUnsupported for element types that are no floats, and for head dims above 5120.
Result<PlainLaunch> prepare_plain(const AttentionParams& params, RowSet rows);

// Writes out and lse of the tokens in launch.rows; others stay as they are.
Status launch_plain(cudaStream_t stream, const PlainLaunch& launch);

}  // namespace headrace::attention
