// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/cuda_stream.h"

#include "tensor/cuda/cuda_error.h"

namespace headrace {

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

Result<CudaStream> CudaStream::create() {
  cudaStream_t stream = nullptr;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CudaStream(stream);
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status CudaStream::synchronize() {
  return cuda_status(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

// Thread-local: what other threads do meanwhile is their own affair.
Status CudaStream::begin_capture() {
  return cuda_status(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture");
}

Result<CudaGraph> CudaStream::end_capture() {
  cudaGraph_t graph = nullptr;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t executable = nullptr;
  const Status status =
      cuda_status(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  CudaGraph owned(executable);
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaGraphUpload(executable, stream_));
  return Result<CudaGraph>(std::move(owned));
}

Status CudaStream::launch(const CudaGraph& graph) {
  return cuda_status(cudaGraphLaunch(graph.executable_, stream_), "cudaGraphLaunch");
}

}  // namespace headrace
