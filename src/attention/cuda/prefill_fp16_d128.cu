// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill_instances.h"
#include "attention/cuda/prefill_launch.cuh"

namespace headrace::attention {

Status launch_prefill_fp16_d128(cudaStream_t stream, const PrefillKernelParams& params,
                                bool soft_cap, int num_blocks) {
  return launch_prefill_kernel<__half, 128>(stream, params, soft_cap, num_blocks);
}

}  // namespace headrace::attention
