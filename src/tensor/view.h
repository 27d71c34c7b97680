// SPDX-License-Identifier: Apache-2.0
// A borrowed, strided, typed view of at most four dimensions. Shapes and strides count elements.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "headrace/dtype.h"

namespace headrace {

inline constexpr int kMaxRank = 4;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    HEADRACE_CHECK(dims.size() <= kMaxRank);
    for (int64_t dim : dims) dims_[static_cast<size_t>(rank_++)] = dim;
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t num_elements() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= dims_[static_cast<size_t>(axis)];
    return product;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// "[2, 3, 4]"
inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

template <typename Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::array<int64_t, kMaxRank> strides{};  // elements

  // Row-major and dense.
  static BasicTensorView dense(Void* data, DType dtype, const Shape& shape) {
    BasicTensorView view{data, dtype, shape, {}};
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      view.strides[static_cast<size_t>(axis)] = stride;
      stride *= shape[axis];
    }
    return view;
  }
  bool is_dense() const { return strides == dense(data, dtype, shape).strides; }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

}  // namespace headrace
