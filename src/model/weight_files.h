// SPDX-License-Identifier: Apache-2.0
// The weight files of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json names. Finds tensors by name; knows nothing of models.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "headrace/status.h"
#include "model/mapped_file.h"
#include "model/safetensors.h"

namespace headrace::model {

class WeightFiles {
 public:
  // kNotFound when the folder has no weights at all. Missing shards are listed by name.
  static Result<std::shared_ptr<const WeightFiles>> open(const std::string& folder);

  struct Tensor {
    TensorEntry entry;
    const std::byte* data = nullptr;
    std::string file;  // path, for messages
  };
  // Null if there is no such tensor.
  const Tensor* find(const std::string& name) const;
  // All of them, in the order of the files.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // What messages call the place where a tensor was not found.
  const std::string& path() const { return path_; }

 private:
  Status add_file(const std::string& path);
  Status add_shards(const std::string& folder, const std::string& index_path);

  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace headrace::model
