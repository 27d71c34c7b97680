// SPDX-License-Identifier: Apache-2.0
// Owner of pinned host memory that kernels address as well: what host and device share while both
// run. A read from the device costs microseconds; it belongs off the critical path. No CUDA type
// here: the C++ compiler reads this header too.
#pragma once

#include <cstddef>
#include <utility>

#include "headrace/status.h"

namespace headrace {

class MappedMemory {
 public:
  // Page aligned, every byte zero. kResourceExhausted when so much cannot be pinned.
  static Result<MappedMemory> allocate(size_t size_bytes);

  MappedMemory(MappedMemory&& other) noexcept { swap(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedMemory();

  void* host_data() const { return host_data_; }
  void* device_data() const { return device_data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  MappedMemory() = default;
  void swap(MappedMemory& other) noexcept {
    std::swap(host_data_, other.host_data_);
    std::swap(device_data_, other.device_data_);
    std::swap(size_bytes_, other.size_bytes_);
  }

  void* host_data_ = nullptr;
  void* device_data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace headrace
