// SPDX-License-Identifier: Apache-2.0
// A file mapped read-only into memory for as long as the object lives. It knows nothing of what the
// bytes mean.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "headrace/status.h"

namespace headrace::model {

class MappedFile {
 public:
  // kNotFound when there is no such file, kInvalidData for what is not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size_bytes)
      : path_(std::move(path)), data_(data), size_bytes_(size_bytes) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// The whole of a small text file. More than `max_bytes` is kInvalidData.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace headrace::model
