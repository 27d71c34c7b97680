// SPDX-License-Identifier: Apache-2.0
// The plain delta rule on the GPU: token by token in fp32, for rows of every kind, every V, K up to
// 512, every element type and stride; for correctness only. What it takes the faster paths need
// not.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "attention/cuda/row_set.h"
#include "gdn/parts_params.h"
#include "gdn/slot_layout.h"
#include "headrace/status.h"

namespace headrace::gdn {

using attention::RowSet;

struct PlainDeltaRule {
  DeltaRuleParams params;
  SlotLayout layout;
  RowSet rows = RowSet::kAll;
};

// "plain delta rule bf16, state fp32, K 128, V 128, all rows"
std::string to_string(const PlainDeltaRule& launch);

// kUnsupported for K above 512 and for element types that are no floats of 16 or 32 bits.
Result<PlainDeltaRule> prepare_plain_delta_rule(const DeltaRuleParams& params, RowSet rows);

// Outputs, states, checkpoints and pending windows of the rows in launch.rows; all else stays as it
// is, padding tokens too.
Status launch_plain_delta_rule(cudaStream_t stream, const PlainDeltaRule& launch);

}  // namespace headrace::gdn
