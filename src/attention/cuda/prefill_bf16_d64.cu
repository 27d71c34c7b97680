// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill_instances.h"
#include "attention/cuda/prefill_launch.cuh"

namespace headrace::attention {

Status launch_prefill_bf16_d64(cudaStream_t stream, const PrefillKernelParams& params,
                               bool soft_cap, int num_blocks) {
  return launch_prefill_kernel<__nv_bfloat16, 64>(stream, params, soft_cap, num_blocks);
}

}  // namespace headrace::attention
