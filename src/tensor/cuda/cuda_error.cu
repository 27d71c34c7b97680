// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/cuda_error.h"

#include <string>

namespace headrace {

Status cuda_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  const std::string message =
      std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") from " + call;
  switch (error) {
    case cudaErrorMemoryAllocation:
      return resource_exhausted(message + ": free memory of the GPU or ask for less");
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return unsupported(message +
                         ": run on a machine with an NVIDIA GPU and a driver for CUDA 13");
    default:
      return internal_error(message);
  }
}

}  // namespace headrace
