// SPDX-License-Identifier: Apache-2.0
// The plain ops of the CPU backend, one function each, as the table in backend.h wants them.
#pragma once

#include <memory>
#include <vector>

#include "headrace/status.h"
#include "ops/ops_params.h"
#include "tensor/stream.h"

namespace headrace::ops::cpu {

Result<std::unique_ptr<PreparedWeight>> prepare_weight(const std::vector<WeightView>& parts,
                                                       DType dtype);
void embedding(Stream& stream, const EmbeddingParams& params);
void add_rms_norm(Stream& stream, const AddRmsNormParams& params);
void linear(Stream& stream, const LinearParams& params);
void qkv_rope_write(Stream& stream, const QkvRopeWriteParams& params);
void head_gate(Stream& stream, const HeadGateParams& params);
void swiglu(Stream& stream, const SwiGluParams& params);
void gather_logit_rows(Stream& stream, const GatherLogitRowsParams& params);
void sample(Stream& stream, const SampleParams& params);

}  // namespace headrace::ops::cpu
