// SPDX-License-Identifier: Apache-2.0
// Owner of a CUDA event: a point in a stream that time is measured from, or that another stream
// waits for.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "headrace/status.h"
#include "tensor/cuda/cuda_stream.h"

namespace headrace {

class CudaEvent {
 public:
  static Result<CudaEvent> create();
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent();

  // All that the stream has been given so far lies before the event.
  Status record(const CudaStream& stream);
  // What the stream is given from now on waits for the event, also across the branches of a graph
  // that is being captured.
  Status hold(const CudaStream& stream) const;
  // Between two recorded events that have come to pass.
  Result<double> us_since(const CudaEvent& earlier) const;

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  cudaEvent_t event_ = nullptr;
};

}  // namespace headrace
