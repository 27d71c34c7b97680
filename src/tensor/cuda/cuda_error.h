// SPDX-License-Identifier: Apache-2.0
// Turns what a CUDA call returned into a Status that carries the error's name, its text and the
// call.
#pragma once

#include <cuda_runtime_api.h>

#include "headrace/status.h"

namespace headrace {

// Out of memory: kResourceExhausted. No GPU or no driver fit for this build: kUnsupported. Anything
// else: kInternal.
Status cuda_status(cudaError_t error, const char* call);

}  // namespace headrace

#define HEADRACE_RETURN_IF_CUDA_ERROR(call) \
  HEADRACE_RETURN_IF_ERROR(::headrace::cuda_status((call), #call))
