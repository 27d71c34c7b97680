// SPDX-License-Identifier: Apache-2.0
#include "tensor/buffer.h"

#include <sys/mman.h>

#include <string>

#ifdef HEADRACE_CUDA
#include "tensor/cuda/device_memory.h"
#endif

namespace headrace {

// Anonymous maps: zeroed by the kernel, page-aligned, given back at once, and not backed by memory
// until touched.
Result<Buffer> Buffer::allocate_zeroed(Device device, size_t size_bytes) {
  Buffer buffer;
  if (device == Device::kCuda) {
#ifdef HEADRACE_CUDA
    if (size_bytes == 0) return buffer;
    HEADRACE_ASSIGN_OR_RETURN(buffer.data_, allocate_device_memory(size_bytes));
    buffer.size_bytes_ = size_bytes;
    buffer.device_ = device;
    return buffer;
#else
    return unsupported("this build has no CUDA backend: use the CPU");
#endif
  }
  if (size_bytes == 0) return buffer;
  void* data =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted("cannot allocate " + std::to_string(size_bytes) + " bytes");
  }
  buffer.data_ = data;
  buffer.size_bytes_ = size_bytes;
  buffer.device_ = device;
  return buffer;
}

Result<Buffer> Buffer::allocate(Device device, size_t size_bytes) {
  return allocate_zeroed(device, size_bytes);
}

void Buffer::release() {
#ifdef HEADRACE_CUDA
  if (data_ != nullptr && device_ == Device::kCuda) free_device_memory(data_);
#endif
  if (data_ != nullptr && device_ == Device::kCpu) munmap(data_, size_bytes_);
  data_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace headrace
