// SPDX-License-Identifier: Apache-2.0
// Launch of the kernel that turns another engine's batch into the input of a step: capturable,
// allocates nothing, reads nothing back; all arrays are device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "headrace/status.h"
#include "metadata/import.h"

namespace headrace::metadata {

Status launch_import(cudaStream_t stream, const ImportParams& params);

}  // namespace headrace::metadata
