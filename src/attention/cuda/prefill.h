// SPDX-License-Identifier: Apache-2.0
// Prefill attention on Hopper. What a launch needs of the host, tensor maps included, is made once,
// in prepare_prefill(): after that a step is one launch with nothing but device arrays to read, so
// it can be captured and replayed with any rows within the limits. Kernels are prefill_kernel.cuh's
// business.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention_params.h"
#include "attention/cuda/prefill_config.h"
#include "attention/cuda/prefill_params.cuh"
#include "headrace/status.h"

namespace headrace::attention {

struct PrefillLaunch {
  PrefillKernelParams params;
  PrefillConfig config;
  void (*kernel)(PrefillKernelParams) = nullptr;
  int32_t num_blocks = 0;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
};

// params.step and all arrays are device memory. kUnsupported where choose_prefill_kernel() says so.
Result<PrefillLaunch> prepare_prefill(const AttentionParams& params, WorkQueue* queue);

// Writes out and lse of the tokens of prefill rows; tokens of other rows and padding tokens stay as
// they are.
Status launch_prefill(cudaStream_t stream, const PrefillLaunch& launch);

}  // namespace headrace::attention
