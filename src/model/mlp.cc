// SPDX-License-Identifier: Apache-2.0
#include "model/mlp.h"

namespace headrace::model {

Result<Mlp> Mlp::load(WeightLoader& loader, int32_t layer) {
  Mlp block;
  HEADRACE_ASSIGN_OR_RETURN(block.gate_up_, loader.matrix({WeightId::kGate, WeightId::kUp}, layer));
  HEADRACE_ASSIGN_OR_RETURN(block.down_, loader.matrix({WeightId::kDown}, layer));
  return block;
}

void Mlp::forward(Pass& pass, const ModelConfig& config) const {
  const Scratch& scratch = pass.scratch;
  linear(pass, *gate_up_, nullptr, scratch.normed, scratch.projection);

  ops::SwiGluParams activation;
  activation.gate_up = scratch.projection;
  activation.out = scratch.mixed;
  activation.intermediate = config.intermediate_size;
  activation.step = pass.step;
  pass.ops.swiglu(pass.stream, activation);

  linear(pass, *down_, nullptr, scratch.mixed, scratch.delta);
  pass.has_delta = true;
}

}  // namespace headrace::model
