// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu_step.h"

#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"

namespace headrace::test {

using attention::check_status;
using attention::value_of;

GpuStep::GpuStep(const std::vector<TestRow>& rows, const TestStepOptions& options)
    : host_(rows, options),
      arena_(value_of(metadata::StepArena::create(Device::kCuda, host_.arena().limits()))),
      stream_(value_of(CudaStream::create())) {
  upload(true);
}

void GpuStep::set_rows(const std::vector<TestRow>& rows, bool build) {
  host_.set_rows(rows);
  host_.rebuild();
  upload(build);
}

void GpuStep::upload(bool build) {
  // The input lies before the derived arrays, in both arenas alike.
  const auto* from = reinterpret_cast<const char*>(host_.arena().input().num_rows);
  const auto* to = reinterpret_cast<const char*>(host_.arena().arrays().counts);
  check_status(
      cuda_status(cudaMemcpyAsync(arena_.input().num_rows, from, static_cast<size_t>(to - from),
                                  cudaMemcpyHostToDevice, stream_.handle()),
                  "cudaMemcpyAsync"));
  if (build)
    check_status(metadata::launch_build(stream_.handle(), arena_.input(), arena_.arrays()));
  check_status(stream_.synchronize());
}

}  // namespace headrace::test
