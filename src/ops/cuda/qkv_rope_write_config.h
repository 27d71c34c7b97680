// SPDX-License-Identifier: Apache-2.0
// Which kernel treats a packed projection, decided on the host from shapes, types and strides
// alone. Knows no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "headrace/status.h"
#include "ops/ops_params.h"

namespace headrace::ops {

inline constexpr int32_t kQkvRopeWriteThreads = 256;

struct QkvRopeWriteConfig {
  // 16 bytes a lane, cosines shared by the heads of a block; else an element a lane, for any shape.
  bool vectors = false;
  int32_t heads_per_block = 1;
  int32_t blocks_per_token = 1;
  // Of the grid; a block takes every num_token_blocks-th token.
  int32_t num_token_blocks = 1;

  // "qkv_rope_write by vectors, 16 heads a block, grid 64 x 3"
  std::string to_string() const;
};

// kInvalidArgument for heads, rotary dims or types that make no sense.
Result<QkvRopeWriteConfig> choose_qkv_rope_write(const QkvRopeWriteParams& params);

}  // namespace headrace::ops
