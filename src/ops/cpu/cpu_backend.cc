// SPDX-License-Identifier: Apache-2.0
// The CPU's table of ops.
#include "attention/attention.h"
#include "gdn/gdn.h"
#include "ops/backend.h"
#include "ops/cpu/ops.h"

namespace headrace::ops {

const Backend& cpu_backend() {
  static const Backend backend{
      .name = "cpu",
      .device = Device::kCpu,
      .prepare_weight = cpu::prepare_weight,
      .embedding = cpu::embedding,
      .add_rms_norm = cpu::add_rms_norm,
      .linear = cpu::linear,
      .qkv_rope_write = cpu::qkv_rope_write,
      .attention = attention::attention,
      .head_gate = cpu::head_gate,
      .gdn_mix = gdn::gdn_mix,
      .swiglu = cpu::swiglu,
      .gather_logit_rows = cpu::gather_logit_rows,
      .sample = cpu::sample,
  };
  return backend;
}

}  // namespace headrace::ops
