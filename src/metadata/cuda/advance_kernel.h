// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels that turn a step into the next one on the device. Both are capturable,
// allocate nothing and read nothing back; all arrays are device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "headrace/status.h"
#include "metadata/advance.h"

namespace headrace::metadata {

Status launch_advance(cudaStream_t stream, const AdvanceParams& params);
Status launch_place_tokens(cudaStream_t stream, const PlaceTokensParams& params);

}  // namespace headrace::metadata
