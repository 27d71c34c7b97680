// SPDX-License-Identifier: Apache-2.0
// The op set that model code is written against: a table of functions over a stream, parameters
// and the step's metadata. Nothing above asks which device it is on. Ops are cut where the fastest
// device fuses; the CPU implements a composite by calling its parts.
#pragma once

#include <memory>
#include <vector>

#include "attention/attention_params.h"
#include "gdn/gdn_params.h"
#include "headrace/status.h"
#include "ops/ops_params.h"
#include "tensor/device.h"
#include "tensor/stream.h"

namespace headrace::ops {

struct Backend {
  const char* name = "";
  Device device = Device::kCpu;

  // Rows of all parts one below the other, in the backend's own layout. `dtype`: what the weight is
  // kept as (fp32, bf16 or fp16).
  Result<std::unique_ptr<PreparedWeight>> (*prepare_weight)(const std::vector<WeightView>& parts,
                                                            DType dtype) = nullptr;

  void (*embedding)(Stream&, const EmbeddingParams&) = nullptr;
  void (*add_rms_norm)(Stream&, const AddRmsNormParams&) = nullptr;
  void (*linear)(Stream&, const LinearParams&) = nullptr;
  void (*qkv_rope_write)(Stream&, const QkvRopeWriteParams&) = nullptr;
  void (*attention)(Stream&, const attention::AttentionParams&) = nullptr;
  void (*head_gate)(Stream&, const HeadGateParams&) = nullptr;
  void (*gdn_mix)(Stream&, const gdn::GdnMixParams&) = nullptr;
  void (*swiglu)(Stream&, const SwiGluParams&) = nullptr;
  void (*gather_logit_rows)(Stream&, const GatherLogitRowsParams&) = nullptr;
  void (*sample)(Stream&, const SampleParams&) = nullptr;
};

// The CPU's table. Lives for the whole program.
const Backend& cpu_backend();

}  // namespace headrace::ops
