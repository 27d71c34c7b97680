// SPDX-License-Identifier: Apache-2.0
#include "model/weight_loader.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/float16.h"

namespace headrace::model {
namespace {

float element(const ops::WeightView& view, int64_t index) {
  switch (view.dtype) {
    case DType::kF32:
      return static_cast<const float*>(view.data)[index];
    case DType::kBF16:
      return to_float(static_cast<const BF16*>(view.data)[index]);
    case DType::kF16:
      return to_float(static_cast<const F16*>(view.data)[index]);
    default:
      HEADRACE_CHECK(false, "a weight in a type that weights cannot have");
  }
}

template <typename T>
void convert(const ops::WeightView& from, T* to) {
  for (int64_t i = 0; i < from.rows * from.cols; ++i) to[i] = from_float<T>(element(from, i));
}

Result<LoadedWeight> convert(const LoadedWeight& from, DType dtype) {
  const size_t count = static_cast<size_t>(from.view.rows * from.view.cols);
  HEADRACE_ASSIGN_OR_RETURN(Buffer buffer,
                            Buffer::allocate(Device::kCpu, count * dtype_size_bytes(dtype)));
  if (dtype == DType::kF32) {
    convert(from.view, buffer.as<float>());
  } else if (dtype == DType::kBF16) {
    convert(from.view, buffer.as<BF16>());
  } else {
    convert(from.view, buffer.as<F16>());
  }
  auto owner = std::make_shared<Buffer>(std::move(buffer));
  return LoadedWeight{{owner->data(), dtype, from.view.rows, from.view.cols}, owner};
}

}  // namespace

WeightLoader::WeightLoader(const TensorSource& source, const std::vector<ExpectedWeight>& expected,
                           const ops::Backend& backend, std::optional<DType> dtype)
    : source_(source), backend_(backend), dtype_(dtype) {
  for (const ExpectedWeight& weight : expected) expected_[{weight.id, weight.layer}] = weight;
}

Result<LoadedWeight> WeightLoader::load(WeightId id, int32_t layer) {
  const auto found = expected_.find({id, layer});
  HEADRACE_CHECK(found != expected_.end(), "a block asks for a weight that its table lacks");
  auto loaded = source_.load(found->second);
  if (!loaded.ok()) return loaded.status().with_context(found->second.name);
  return loaded;
}

Result<Matrix> WeightLoader::matrix(const std::vector<WeightId>& ids, int32_t layer) {
  std::vector<LoadedWeight> parts;
  for (const WeightId id : ids) {
    HEADRACE_ASSIGN_OR_RETURN(LoadedWeight part, load(id, layer));
    parts.push_back(std::move(part));
  }
  return matrix(parts);
}

Result<Matrix> WeightLoader::matrix(const std::vector<LoadedWeight>& parts) {
  HEADRACE_CHECK(!parts.empty());
  std::vector<ops::WeightView> views;
  DType dtype = parts.front().view.dtype;
  for (const LoadedWeight& part : parts) {
    views.push_back(part.view);
    // Parts of several types can be kept without loss only in the widest.
    if (part.view.dtype != dtype) dtype = DType::kF32;
  }
  HEADRACE_ASSIGN_OR_RETURN(Matrix matrix, backend_.prepare_weight(views, dtype_.value_or(dtype)));
  bytes_ += matrix->size_bytes();
  return matrix;
}

Result<Buffer> WeightLoader::vector(const std::vector<WeightId>& ids, int32_t layer) {
  std::vector<float> values;
  for (const WeightId id : ids) {
    HEADRACE_ASSIGN_OR_RETURN(const LoadedWeight part, load(id, layer));
    const size_t start = values.size();
    values.resize(start + static_cast<size_t>(part.view.rows * part.view.cols));
    convert(part.view, values.data() + start);
  }
  HEADRACE_ASSIGN_OR_RETURN(Buffer buffer,
                            Buffer::allocate(backend_.device, values.size() * sizeof(float)));
  std::copy(values.begin(), values.end(), buffer.as<float>());
  bytes_ += static_cast<int64_t>(buffer.size_bytes());
  return buffer;
}

Result<LoadedWeight> WeightLoader::table(WeightId id) {
  HEADRACE_ASSIGN_OR_RETURN(LoadedWeight table, load(id, 0));
  if (dtype_ && table.view.dtype != *dtype_) {
    HEADRACE_ASSIGN_OR_RETURN(table, convert(table, *dtype_));
  }
  bytes_ +=
      table.view.rows * table.view.cols * static_cast<int64_t>(dtype_size_bytes(table.view.dtype));
  return table;
}

}  // namespace headrace::model
