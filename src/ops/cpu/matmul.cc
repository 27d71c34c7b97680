// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/float16.h"

namespace headrace::ops {
namespace {

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

float load_element(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kBF16:
      return to_float(static_cast<const BF16*>(data)[index]);
    case DType::kF16:
      return to_float(static_cast<const F16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store_element(void* data, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::kBF16:
      static_cast<BF16*>(data)[index] = from_float<BF16>(value);
      return;
    case DType::kF16:
      static_cast<F16*>(data)[index] = from_float<F16>(value);
      return;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

// One panel for one token, in plain C++.
template <typename T>
void panel_dot(const void* panel, int64_t cols, const float* x, float* sums) {
  const T* weights = static_cast<const T*>(panel);
  std::fill(sums, sums + kPanelRows, 0.0f);
  for (int64_t k = 0; k < cols; ++k) {
    for (int64_t i = 0; i < kPanelRows; ++i)
      sums[i] += to_float(weights[k * kPanelRows + i]) * x[k];
  }
}

void panel_dot(DType dtype, const void* panel, int64_t cols, const float* x, float* sums) {
  switch (dtype) {
    case DType::kBF16:
      return panel_dot<BF16>(panel, cols, x, sums);
    case DType::kF16:
      return panel_dot<F16>(panel, cols, x, sums);
    default:
      return panel_dot<float>(panel, cols, x, sums);
  }
}

}  // namespace

Result<std::unique_ptr<PackedWeight>> PackedWeight::pack(const std::vector<WeightView>& parts,
                                                         DType dtype) {
  if (!is_weight_dtype(dtype)) {
    return unsupported(
        fmt::format("a weight cannot be kept as {}; choose fp32, bf16 or fp16", dtype_name(dtype)));
  }
  if (parts.empty()) return invalid_argument("a weight has no parts; pass at least one");
  auto weight = std::make_unique<PackedWeight>();
  weight->cols_ = parts[0].cols;
  weight->dtype_ = dtype;
  for (const WeightView& part : parts) {
    if (!is_weight_dtype(part.dtype) || part.scale != nullptr) {
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
  int64_t row = 0;
  for (const WeightView& part : parts) {
    for (int64_t part_row = 0; part_row < part.rows; ++part_row, ++row) {
      const int64_t base = row / kPanelRows * kPanelRows * cols + row % kPanelRows;
      for (int64_t k = 0; k < cols; ++k) {
        store_element(weight->data_.data(), dtype, base + k * kPanelRows,
                      load_element(part.data, part.dtype, part_row * cols + k));
      }
    }
  }
  return weight;
}

const void* PackedWeight::panel(int64_t index) const {
  return data_.as<char>() +
         index * kPanelRows * cols_ * static_cast<int64_t>(dtype_size_bytes(dtype_));
}

void matmul(Isa, ThreadPool& pool, const PackedWeight& weight, const float* bias, const float* x,
            int64_t x_stride, int64_t num_tokens, float* out, int64_t out_stride) {
  pool.parallel_for(weight.num_panels(), 1, [&](int64_t begin, int64_t end) {
    std::array<float, kPanelRows> sums;
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kPanelRows;
      const int64_t rows = std::min(kPanelRows, weight.rows() - first);
      for (int64_t token = 0; token < num_tokens; ++token) {
        panel_dot(weight.dtype(), weight.panel(panel), weight.cols(), x + token * x_stride,
                  sums.data());
        for (int64_t i = 0; i < rows; ++i) {
          out[token * out_stride + first + i] =
              sums[static_cast<size_t>(i)] + (bias != nullptr ? bias[first + i] : 0.0f);
        }
      }
    }
  });
}

}  // namespace headrace::ops
