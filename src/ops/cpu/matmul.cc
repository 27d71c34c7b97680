// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul.h"

#include <fmt/core.h>

#include <algorithm>

#include "tensor/convert.h"

namespace headrace::ops {
namespace {

// Work is cut into blocks of this many panels: what one token's kernel takes at once.
constexpr int64_t kBlockPanels = 4;
// Below this many multiplications, waking a thread costs more than it saves.
constexpr int64_t kGrainProducts = 100'000;

// Tokens of a block: so many that their inputs stay in the second-level cache while panels pass by.
int64_t block_tokens(int64_t cols) {
  constexpr int64_t kInputFloats = 64 * 1024;
  return std::clamp<int64_t>(kInputFloats / cols / 6 * 6, 24, 192);
}

}  // namespace

Result<std::unique_ptr<PackedWeight>> PackedWeight::pack(const std::vector<WeightView>& parts,
                                                         DType dtype) {
  if (!is_float_dtype(dtype)) {
    return unsupported(
        fmt::format("a weight cannot be kept as {}; choose fp32, bf16 or fp16", dtype_name(dtype)));
  }
  if (parts.empty()) return invalid_argument("a weight has no parts; pass at least one");
  auto weight = std::make_unique<PackedWeight>();
  weight->cols_ = parts[0].cols;
  weight->dtype_ = dtype;
  for (const WeightView& part : parts) {
    if (!is_float_dtype(part.dtype) || part.scale != nullptr) {
      return unsupported(
          fmt::format("no matrix product with {} weights; convert to fp32, bf16 or "
                      "fp16",
                      part.scale ? "scaled" : dtype_name(part.dtype)));
    }
    if (part.data == nullptr || part.rows <= 0 || part.cols <= 0) {
      return invalid_argument(fmt::format("a weight of shape [{}, {}] {}; check the tensor's shape",
                                          part.rows, part.cols,
                                          part.data ? "is empty" : "has no data"));
    }
    if (part.cols != weight->cols_) {
      return invalid_argument(
          fmt::format("weights of {} and {} columns cannot be stacked; check the tensors' shapes",
                      weight->cols_, part.cols));
    }
    weight->rows_ += part.rows;
  }
  const int64_t cols = weight->cols_;
  const auto size =
      static_cast<size_t>(weight->num_panels() * kPanelRows * cols) * dtype_size_bytes(dtype);
  HEADRACE_ASSIGN_OR_RETURN(weight->data_, Buffer::allocate_zeroed(Device::kCpu, size));
  std::vector<float> values(static_cast<size_t>(cols));
  int64_t row = 0;
  for (const WeightView& part : parts) {
    for (int64_t part_row = 0; part_row < part.rows; ++part_row, ++row) {
      const int64_t base =
          row / kPanelRows * kPanelRows * cols + position_in_panel(dtype, row % kPanelRows);
      widen(part.data, part.dtype, part_row * cols, cols, values.data());
      narrow(values.data(), cols, weight->data_.data(), dtype, base, kPanelRows);
    }
  }
  return weight;
}

const void* PackedWeight::panel(int64_t index) const {
  return data_.as<char>() +
         index * kPanelRows * cols_ * static_cast<int64_t>(dtype_size_bytes(dtype_));
}

void matmul(Isa isa, ThreadPool& pool, const PackedWeight& weight, const float* bias,
            const float* x, int64_t x_stride, int64_t num_tokens, float* out, int64_t out_stride) {
  if (num_tokens == 0) return;
  const auto kernel = isa == Isa::kAvx2 ? matmul_tile_avx2 : matmul_tile_scalar;
  constexpr int64_t kBlockRows = kBlockPanels * kPanelRows;
  const int64_t row_blocks = (weight.rows() + kBlockRows - 1) / kBlockRows;
  const int64_t tokens_per_block = std::min(num_tokens, block_tokens(weight.cols()));
  const int64_t token_blocks = (num_tokens + tokens_per_block - 1) / tokens_per_block;
  const int64_t products = kBlockRows * weight.cols() * tokens_per_block;
  const int64_t grain = (kGrainProducts + products - 1) / products;
  // Row blocks run fastest, so that the inputs of a token block are used while they are near.
  pool.parallel_for(token_blocks * row_blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t token = block / row_blocks * tokens_per_block;
      const int64_t row = block % row_blocks * kBlockRows;
      kernel({.panels = weight.panel(row / kPanelRows),
              .dtype = weight.dtype(),
              .cols = weight.cols(),
              .rows = std::min(kBlockRows, weight.rows() - row),
              .bias = bias != nullptr ? bias + row : nullptr,
              .x = x + token * x_stride,
              .x_stride = x_stride,
              .num_tokens = std::min(tokens_per_block, num_tokens - token),
              .out = out + token * out_stride + row,
              .out_stride = out_stride});
    }
  });
}

}  // namespace headrace::ops
