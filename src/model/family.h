// SPDX-License-Identifier: Apache-2.0
// A family: models that share weight names and a list of layers. One file each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/weight_loader.h"
#include "model/weight_table.h"

namespace headrace::model {

struct Family {
  const WeightTable& weights;
  // What may stand for "model." in a checkpoint, in order of preference.
  std::vector<std::string> prefixes;
  // Parts of the checkpoint that are not used.
  std::vector<std::string> skipped_prefixes;
  // Added to the weights of the norms (but not of a GDN layer's gated norm): 1 if they are
  // zero-centred.
  float norm_offset = 0.0f;
  Result<std::unique_ptr<Model>> (*create)(const ModelConfig& config, WeightLoader& loader);
};

const Family& llama_family();
const Family& qwen3_family();
const Family& qwen3_5_family();
const Family& qwen3_next_family();

}  // namespace headrace::model
