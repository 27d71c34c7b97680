// SPDX-License-Identifier: Apache-2.0
// Prefill attention on the GPU: the launch. Kernels are prefill_kernel.cuh's business.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

// Hands out the work of a launch. In device memory, zero before the first launch; every launch
// leaves it zero. Launches that may run at the same time need one each.
struct PrefillQueue {
  int32_t next = 0;      // first piece of work that no thread block has taken
  int32_t finished = 0;  // thread blocks that found none left
};

// Attention of the step's prefill rows; rows of other kinds and padding tokens are not touched.
// May be captured and replayed with any rows within the step's limits. kUnsupported where
// choose_prefill_kernel() says so.
Status launch_prefill(cudaStream_t stream, const AttentionParams& params, PrefillQueue* queue);

}  // namespace headrace::attention
