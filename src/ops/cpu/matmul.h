// SPDX-License-Identifier: Apache-2.0
// Matrix products of the CPU backend: a weight packed into panels of 16 output features, each
// panel [cols, 16], so that one vector load brings the weights of 16 features for one input.
// Every output element is one sum over k = 0 … cols − 1 in this order in a lane of its own, hence
// the same bits for any number of tokens, any tile and any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "headrace/status.h"
#include "ops/cpu/matmul_tile.h"
#include "ops/ops_params.h"
#include "tensor/buffer.h"

namespace headrace::ops {

class PackedWeight final : public PreparedWeight {
 public:
  // Rows of all parts one below the other, kept as `dtype`.
  static Result<std::unique_ptr<PackedWeight>> pack(const std::vector<WeightView>& parts,
                                                    DType dtype);

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  int64_t size_bytes() const override { return static_cast<int64_t>(data_.size_bytes()); }
  int64_t num_panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  DType dtype() const { return dtype_; }
  const void* panel(int64_t index) const;

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  DType dtype_ = DType::kF32;
  Buffer data_;  // [num_panels, cols, 16]; rows past rows_ are zero
};

// out[t] = weight · x[t] (+ bias) for t in [0, num_tokens).
void matmul(Isa isa, ThreadPool& pool, const PackedWeight& weight,
            const float* bias,  // [rows] or null
            const float* x,     // [num_tokens, cols]
            int64_t x_stride, int64_t num_tokens,
            float* out,  // [num_tokens, rows]
            int64_t out_stride);

}  // namespace headrace::ops
