// SPDX-License-Identifier: Apache-2.0
// Weights from safetensors files, and the check of a checkpoint against what the model expects.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <unordered_set>

#include "base/check.h"
#include "base/log.h"
#include "model/tensor_source.h"
#include "tensor/buffer.h"

namespace headrace::model {
namespace {

constexpr size_t kListed = 5;  // names that a message lists before "and N more"

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kListed);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

bool starts_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (name.compare(0, prefix.size(), prefix) == 0) return true;
  }
  return false;
}

Status check_tensor(const ExpectedWeight& weight, const WeightFiles::Tensor& tensor) {
  if (tensor.entry.shape != weight.shape) {
    return invalid_data(fmt::format("{}: tensor \"{}\" has shape {}, but config.json asks for {}",
                                    tensor.file, weight.name, shape_text(tensor.entry.shape),
                                    shape_text(weight.shape)));
  }
  if (!weight_dtype(tensor.entry)) {
    return unsupported(
        fmt::format("{}: tensor \"{}\" has dtype {}, but must be BF16, F16 or F32; "
                    "quantised checkpoints are not supported",
                    tensor.file, weight.name, tensor.entry.dtype));
  }
  return {};
}

class CheckpointSource final : public TensorSource {
 public:
  explicit CheckpointSource(std::shared_ptr<const WeightFiles> files) : files_(std::move(files)) {}

  Result<LoadedWeight> load(const ExpectedWeight& weight) const override {
    const WeightFiles::Tensor* tensor = files_->find(weight.name);
    HEADRACE_CHECK(tensor != nullptr && !weight.shape.empty(), weight.name);
    const DType dtype = *weight_dtype(tensor->entry);
    const int64_t rows = weight.shape[0];
    LoadedWeight loaded{{tensor->data, dtype, rows, weight.num_elements() / rows}, files_};
    // Old writers do not align the data; kernels need aligned elements.
    if (reinterpret_cast<uintptr_t>(tensor->data) % dtype_size_bytes(dtype) != 0) {
      const size_t bytes = tensor->entry.end_bytes - tensor->entry.begin_bytes;
      HEADRACE_ASSIGN_OR_RETURN(Buffer copy, Buffer::allocate(Device::kCpu, bytes));
      std::memcpy(copy.data(), tensor->data, bytes);
      auto owner = std::make_shared<Buffer>(std::move(copy));
      loaded.view.data = owner->data();
      loaded.owner = std::move(owner);
    }
    return loaded;
  }

 private:
  std::shared_ptr<const WeightFiles> files_;
};

}  // namespace

std::unique_ptr<TensorSource> checkpoint_source(std::shared_ptr<const WeightFiles> files) {
  return std::make_unique<CheckpointSource>(std::move(files));
}

std::string find_prefix(const WeightTable& table, const ModelConfig& config,
                        const std::vector<std::string>& prefixes, const WeightFiles& files) {
  for (const std::string& prefix : prefixes) {
    for (const ExpectedWeight& weight : expected_weights(table, config, prefix)) {
      if (weight.id == WeightId::kEmbedding && files.find(weight.name) != nullptr) return prefix;
    }
  }
  return prefixes.front();
}

Status check_weights(const std::vector<ExpectedWeight>& expected, const WeightFiles& files) {
  std::vector<std::string> missing;
  for (const ExpectedWeight& weight : expected) {
    const WeightFiles::Tensor* tensor = files.find(weight.name);
    if (tensor == nullptr) {
      missing.push_back(weight.name);
      continue;
    }
    HEADRACE_RETURN_IF_ERROR(check_tensor(weight, *tensor));
  }
  if (!missing.empty()) {
    return invalid_data(fmt::format(
        "{}: {} of {} tensors are missing: {}; do config.json and the weights belong together?",
        files.path(), missing.size(), expected.size(), listed(missing)));
  }
  return {};
}

void log_unused(const std::vector<ExpectedWeight>& expected,
                const std::vector<std::string>& skipped_prefixes, const WeightFiles& files) {
  std::unordered_set<std::string_view> known;
  for (const ExpectedWeight& weight : expected) known.insert(weight.name);
  std::vector<std::string> unexpected;
  for (const WeightFiles::Tensor& tensor : files.tensors()) {
    const std::string& name = tensor.entry.name;
    if (known.count(name) == 0 && !starts_with_any(name, skipped_prefixes)) {
      unexpected.push_back(name);
    }
  }
  if (!unexpected.empty()) {
    log(LogLevel::kWarning, "{}: {} tensors are not used: {}", files.path(), unexpected.size(),
        listed(unexpected));
  }
  const std::vector<std::string> skipped = skipped_in(skipped_prefixes, files);
  if (!skipped.empty()) {
    log(LogLevel::kInfo, "{}: weights under {} are skipped", files.path(),
        fmt::join(skipped, ", "));
  }
}

std::vector<std::string> skipped_in(const std::vector<std::string>& skipped_prefixes,
                                    const WeightFiles& files) {
  std::vector<std::string> found;
  for (const std::string& prefix : skipped_prefixes) {
    for (const WeightFiles::Tensor& tensor : files.tensors()) {
      if (tensor.entry.name.compare(0, prefix.size(), prefix) == 0) {
        found.push_back(prefix);
        break;
      }
    }
  }
  return found;
}

}  // namespace headrace::model
