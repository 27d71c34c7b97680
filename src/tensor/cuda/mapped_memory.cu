// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/mapped_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "tensor/cuda/cuda_error.h"

namespace headrace {

Result<MappedMemory> MappedMemory::allocate(size_t size_bytes) {
  MappedMemory memory;
  const Status allocated = cuda_status(
      cudaHostAlloc(&memory.host_data_, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable),
      "cudaHostAlloc");
  if (!allocated.ok()) {
    cudaGetLastError();  // told here; the next launch must not find it
    return allocated.with_context(std::to_string(size_bytes) + " bytes of mapped memory");
  }
  memory.size_bytes_ = size_bytes;
  std::memset(memory.host_data_, 0, size_bytes);
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaHostGetDevicePointer(&memory.device_data_, memory.host_data_, 0));
  return Result<MappedMemory>(std::move(memory));
}

MappedMemory::~MappedMemory() {
  if (host_data_ != nullptr) cudaFreeHost(host_data_);
}

}  // namespace headrace
