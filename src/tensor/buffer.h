// SPDX-License-Identifier: Apache-2.0
// Owning memory: move-only, aligned, sized in bytes. Views (tensor/view.h) borrow from it.
#pragma once

#include <cstddef>
#include <utility>

#include "headrace/status.h"
#include "tensor/device.h"

namespace headrace {

class Buffer {
 public:
  // 64-byte aligned (one cache line, one AVX-512 vector). The content is undefined.
  // kResourceExhausted when the memory cannot be had; kUnsupported for a device that this build
  // has no backend for.
  static Result<Buffer> allocate(Device device, size_t size_bytes);
  // The same, zeroed. On the CPU untouched pages cost no memory.
  static Result<Buffer> allocate_zeroed(Device device, size_t size_bytes);

  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() { return data_; }
  const void* data() const { return data_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }

 private:
  void release();
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(device_, other.device_);
  }

  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  Device device_ = Device::kCpu;
};

}  // namespace headrace
