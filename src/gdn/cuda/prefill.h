// SPDX-License-Identifier: Apache-2.0
// Chunked prefill of Gated DeltaNet on Hopper. What a launch needs of the host, tensor maps
// included, is made once, in prepare_prefill(): after that a step is two launches with nothing but
// device arrays to read, so they can be captured and replayed with any rows within the limits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gdn/cuda/prefill_config.h"
#include "gdn/cuda/prefill_instances.h"
#include "gdn/cuda/prefill_params.cuh"
#include "headrace/status.h"

namespace headrace::gdn {

struct PrefillLaunch {
  PrefillKernelParams params;
  PrefillConfig config;
  PrefillInstance instance;
};

// Scratch memory, from maxima alone; its alignment is 128 bytes.
int64_t prefill_workspace_bytes(const GdnShape& shape, const metadata::Limits& limits);

// params.step and all arrays are device memory; params.workspace holds prefill_workspace_bytes().
// kUnsupported where choose_prefill_kernel() says so.
Result<PrefillLaunch> prepare_prefill(const DeltaRuleParams& params);

// The delta rule for the prefill rows of the step: writes out, and the states of their final slots
// and checkpoints. Other rows' tokens and slots stay as they are. With `programmatic`, the first
// kernel may start before the kernel in front of it has ended.
Status launch_prefill(cudaStream_t stream, const PrefillLaunch& launch, bool programmatic = false);

}  // namespace headrace::gdn
