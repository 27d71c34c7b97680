// SPDX-License-Identifier: Apache-2.0
// What blocks take their weights from: matrices prepared by the backend, vectors in fp32. It knows
// which weights a model expects, not what a block does with them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "headrace/status.h"
#include "model/tensor_source.h"
#include "model/weight_table.h"
#include "ops/backend.h"
#include "tensor/buffer.h"

namespace headrace::model {

using Matrix = std::unique_ptr<ops::PreparedWeight>;

class WeightLoader {
 public:
  // `dtype`: what matrices are kept as; empty = as they come.
  WeightLoader(const TensorSource& source, const std::vector<ExpectedWeight>& expected,
               const ops::Backend& backend, std::optional<DType> dtype);

  const ops::Backend& backend() const { return backend_; }
  bool expects(WeightId id, int32_t layer) const { return expected_.count({id, layer}) != 0; }

  // As it comes.
  Result<LoadedWeight> load(WeightId id, int32_t layer);
  // Rows of all of them one below the other.
  Result<Matrix> matrix(const std::vector<WeightId>& ids, int32_t layer);
  Result<Matrix> matrix(const std::vector<LoadedWeight>& parts);
  // Elements of all of them one after the other, in fp32.
  Result<Buffer> vector(const std::vector<WeightId>& ids, int32_t layer);
  // A table to look rows up in: kept in place where its type allows.
  Result<LoadedWeight> table(WeightId id);

  // Of all that was handed out.
  int64_t bytes() const { return bytes_; }

 private:
  const TensorSource& source_;
  std::map<std::pair<WeightId, int32_t>, ExpectedWeight> expected_;
  const ops::Backend& backend_;
  std::optional<DType> dtype_;
  int64_t bytes_ = 0;
};

}  // namespace headrace::model
