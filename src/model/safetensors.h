// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length (little-endian), a JSON header, the tensors.
// Reads and checks the header of one file held in memory; knows nothing of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace::model {

struct TensorEntry {
  std::string name;
  std::string dtype;  // as the file spells it, e.g. "BF16"; may be one that is not known here
  std::vector<int64_t> shape;
  size_t begin_bytes = 0;  // from the start of the file
  size_t end_bytes = 0;
};

// The dtype of a tensor, if it is one that weights may have: F32, BF16 or F16.
std::optional<DType> weight_dtype(const TensorEntry& entry);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

// `file` is the whole file. Every entry that comes back lies inside it, has the bytes that its
// dtype and shape ask for, and overlaps no other. Errors name the tensor.
Result<std::vector<TensorEntry>> parse_safetensors(std::span<const std::byte> file);

}  // namespace headrace::model
