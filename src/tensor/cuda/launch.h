// SPDX-License-Identifier: Apache-2.0
// One way to launch a kernel: checked, and with programmatic dependent launch where it is asked
// for. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "headrace/status.h"
#include "tensor/cuda/cuda_error.h"

namespace headrace {

struct LaunchShape {
  dim3 grid = 1;
  dim3 block = 1;
  size_t shared_bytes = 0;  // dynamic
  // The kernel may start before the one before it has ended; it calls ptx::wait_for_dependencies()
  // in every block before it reads what that kernel wrote.
  bool programmatic = false;
};

template <typename... Params, typename... Args>
Status launch_kernel(cudaStream_t stream, const LaunchShape& shape, const char* name,
                     void (*kernel)(Params...), Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = shape.programmatic ? 1 : 0;
  return cuda_status(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), name);
}

}  // namespace headrace
