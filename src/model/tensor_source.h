// SPDX-License-Identifier: Apache-2.0
// Where weights come from: the files of a checkpoint, or a seeded generator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headrace/status.h"
#include "model/weight_files.h"
#include "model/weight_table.h"
#include "ops/ops_params.h"

namespace headrace::model {

// A tensor in memory: the first dimension as rows, all others together as columns.
struct LoadedWeight {
  ops::WeightView view;
  std::shared_ptr<const void> owner;  // keeps view.data alive
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual Result<LoadedWeight> load(const ExpectedWeight& weight) const = 0;
};

// Tensors of a checkpoint, as they lie in the mapped file.
std::unique_ptr<TensorSource> checkpoint_source(std::shared_ptr<const WeightFiles> files);

// Pseudo-random tensors that depend on (seed, name, shape) alone. Sizes are such that activations
// neither explode nor vanish; gates get the spread that trained models have. `norm_offset` is what
// the model adds to its norm weights.
std::unique_ptr<TensorSource> dummy_source(uint64_t seed, DType dtype, float norm_offset);

// The prefix of kPrefix names that the checkpoint uses: the first of `prefixes` under which the
// first weight with such a name is found; the first of all if none is.
std::string find_prefix(const WeightTable& table, const ModelConfig& config,
                        const std::vector<std::string>& prefixes, const WeightFiles& files);

// Missing names are an error that lists them, wrong shapes and dtypes one that names the first.
Status check_weights(const std::vector<ExpectedWeight>& expected, const WeightFiles& files);

// Says in the log what of the checkpoint is not used: names that are neither expected nor skipped
// (a warning), and which skipped prefixes occur.
void log_unused(const std::vector<ExpectedWeight>& expected,
                const std::vector<std::string>& skipped_prefixes, const WeightFiles& files);

// Those of `skipped_prefixes` that the checkpoint has.
std::vector<std::string> skipped_in(const std::vector<std::string>& skipped_prefixes,
                                    const WeightFiles& files);

}  // namespace headrace::model
