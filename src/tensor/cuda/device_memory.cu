// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/device_memory.h"

#include <string>

#include "tensor/cuda/cuda_error.h"

namespace headrace {

Result<void*> allocate_device_memory(size_t size_bytes) {
  void* data = nullptr;
  const Status allocated = cuda_status(cudaMalloc(&data, size_bytes), "cudaMalloc");
  if (!allocated.ok()) {
    cudaGetLastError();  // told here; the next launch must not find it
    return allocated.with_context(std::to_string(size_bytes) + " bytes");
  }
  // Waits: memory is used from streams that do not wait for the one of the memset.
  cudaError_t error = cudaMemset(data, 0, size_bytes);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return data;
  free_device_memory(data);
  return cuda_status(error, "cudaMemset");
}

void free_device_memory(void* data) { cudaFree(data); }

}  // namespace headrace
