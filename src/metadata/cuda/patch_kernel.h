// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels of the patch ring. Both are capturable, allocate nothing and read nothing
// back. The fetch belongs on a branch of the step's graph, from advance_and_apply to the end of the
// step: it is the only one that reads host memory.
#pragma once

#include <cuda_runtime_api.h>

#include "headrace/status.h"
#include "metadata/patch.h"

namespace headrace::metadata {

Status launch_advance_and_apply(cudaStream_t stream, const AdvanceParams& advance,
                                const PatchParams& patch);
Status launch_fetch_patches(cudaStream_t stream, const PatchParams& params);

}  // namespace headrace::metadata
