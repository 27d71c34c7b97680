// SPDX-License-Identifier: Apache-2.0
// What general kernels are built, and why. One .cu file a line of element types and head dim:
//   general_<io>_<kv>_d<D>.cu   bf16 and fp16 caches, and fp8 caches under either
//   D 64, 128, 256              as the decode and prefill kernels
// and for D 256 a wide block and one for GPUs with less shared memory (general_tile()). Strides,
// windows, soft caps, sinks and the log-sum-exp are run-time options. No kernel needs more than
// sm_80, and each of them takes rows of every kind.
#pragma once

#include <cstdint>

#include "attention/cuda/general_config.h"
#include "attention/cuda/general_params.cuh"

namespace headrace::attention {

struct GeneralInstance {
  void (*kernel)(GeneralParams) = nullptr;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
};

GeneralInstance general_bf16_bf16_d64(bool wide);
GeneralInstance general_bf16_bf16_d128(bool wide);
GeneralInstance general_bf16_bf16_d256(bool wide);
GeneralInstance general_fp16_fp16_d64(bool wide);
GeneralInstance general_fp16_fp16_d128(bool wide);
GeneralInstance general_fp16_fp16_d256(bool wide);
GeneralInstance general_bf16_fp8_d64(bool wide);
GeneralInstance general_bf16_fp8_d128(bool wide);
GeneralInstance general_bf16_fp8_d256(bool wide);
GeneralInstance general_fp16_fp8_d64(bool wide);
GeneralInstance general_fp16_fp8_d128(bool wide);
GeneralInstance general_fp16_fp8_d256(bool wide);

}  // namespace headrace::attention
