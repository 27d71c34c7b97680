// SPDX-License-Identifier: Apache-2.0
// Launches one instantiation of the prefill kernel. Included by the files of the instantiations.
#pragma once

#include "attention/cuda/prefill_kernel.cuh"
#include "attention/cuda/prefill_params.cuh"
#include "tensor/cuda/launch.h"

namespace headrace::attention {

template <typename Traits>
Status launch_prefill_instance(cudaStream_t stream, const PrefillKernelParams& params,
                               int num_blocks) {
  constexpr size_t kSharedBytes = prefill_shared_bytes<Traits>();
  static const Status prepared =
      cuda_status(cudaFuncSetAttribute(prefill_kernel<Traits>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                  "shared memory of prefill attention");
  HEADRACE_RETURN_IF_ERROR(prepared);
  LaunchShape shape;
  shape.grid = num_blocks;
  shape.block = Traits::kThreads;
  shape.shared_bytes = kSharedBytes;
  return launch_kernel(stream, shape, "prefill attention", prefill_kernel<Traits>, params);
}

template <typename T, int kHeadDim>
Status launch_prefill_kernel(cudaStream_t stream, const PrefillKernelParams& params, bool soft_cap,
                             int num_blocks) {
  return soft_cap
             ? launch_prefill_instance<PrefillTraits<T, kHeadDim, true>>(stream, params, num_blocks)
             : launch_prefill_instance<PrefillTraits<T, kHeadDim, false>>(stream, params,
                                                                          num_blocks);
}

}  // namespace headrace::attention
