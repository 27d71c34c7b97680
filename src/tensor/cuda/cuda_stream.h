// SPDX-License-Identifier: Apache-2.0
// Owners of a CUDA stream and of a captured, instantiated graph: CpuStream's rules on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "headrace/status.h"
#include "tensor/device.h"
#include "tensor/stream.h"

namespace headrace {

class CudaGraph {
 public:
  CudaGraph(CudaGraph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  CudaGraph& operator=(CudaGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~CudaGraph();

 private:
  friend class CudaStream;
  explicit CudaGraph(cudaGraphExec_t executable) : executable_(executable) {}
  cudaGraphExec_t executable_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  // On the current device; does not wait for the default stream.
  static Result<CudaStream> create();
  CudaStream(CudaStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~CudaStream() override;

  Device device() const override { return Device::kCuda; }
  cudaStream_t handle() const { return stream_; }

  // Waits for all that was submitted; reports what failed in it.
  Status synchronize();
  // Between the two calls launches are recorded instead of run.
  Status begin_capture();
  Result<CudaGraph> end_capture();
  Status launch(const CudaGraph& graph);

 private:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream_ = nullptr;
};

}  // namespace headrace
