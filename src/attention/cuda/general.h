// SPDX-License-Identifier: Apache-2.0
// General attention on the GPU: what the decode and prefill kernels leave, with tensor cores, and
// all of it on GPUs before Hopper. Prepared once, launched in every step, as decode.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "attention/attention_params.h"
#include "attention/cuda/general_config.h"
#include "attention/cuda/general_params.cuh"
#include "headrace/status.h"

namespace headrace::attention {

struct GeneralLaunch {
  GeneralParams params;
  GeneralConfig config;
  void (*kernel)(GeneralParams) = nullptr;
  int32_t num_blocks = 0;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
};

// params.step and all arrays are device memory. kUnsupported where choose_general() says so.
Result<GeneralLaunch> prepare_general(const AttentionParams& params, RowSet rows, WorkQueue* queue);

// Writes out and lse of the tokens in launch.params.rows; others stay as they are.
Status launch_general(cudaStream_t stream, const GeneralLaunch& launch);

}  // namespace headrace::attention
