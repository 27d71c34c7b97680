// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/cuda_event.h"

#include "tensor/cuda/cuda_error.h"

namespace headrace {

Result<CudaEvent> CudaEvent::create() {
  cudaEvent_t event = nullptr;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaEventCreate(&event));
  return CudaEvent(event);
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status CudaEvent::record(const CudaStream& stream) {
  return cuda_status(cudaEventRecord(event_, stream.handle()), "cudaEventRecord");
}

Status CudaEvent::hold(const CudaStream& stream) const {
  return cuda_status(cudaStreamWaitEvent(stream.handle(), event_, 0), "cudaStreamWaitEvent");
}

Result<double> CudaEvent::us_since(const CudaEvent& earlier) const {
  float elapsed_ms = 0.0f;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&elapsed_ms, earlier.event_, event_));
  return 1e3 * static_cast<double>(elapsed_ms);
}

}  // namespace headrace
