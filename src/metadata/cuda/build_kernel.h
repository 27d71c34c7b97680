// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels that derive the metadata on the device. Both are capturable, allocate
// nothing and read nothing back; the arrays are device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "headrace/status.h"
#include "metadata/arrays.h"
#include "metadata/split.h"

namespace headrace::metadata {

Status launch_build(cudaStream_t stream, const StepInput& input, const StepArrays& arrays);

Status launch_build_split(cudaStream_t stream, const StepView& step, const SplitShape& shape,
                          const SplitArrays& out);

}  // namespace headrace::metadata
