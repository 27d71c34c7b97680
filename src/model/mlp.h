// SPDX-License-Identifier: Apache-2.0
// A SwiGLU block: gate|up projection → silu(gate) · up → down projection.
#pragma once

#include "model/pass.h"
#include "model/weight_loader.h"

namespace headrace::model {

class Mlp {
 public:
  static Result<Mlp> load(WeightLoader& loader, int32_t layer);
  void forward(Pass& pass, const ModelConfig& config) const;

 private:
  Matrix gate_up_;
  Matrix down_;
};

}  // namespace headrace::model
