// SPDX-License-Identifier: Apache-2.0
// Which prefill kernels are built: one head dim and type a file, each with and without a soft cap,
// which works on every score. Windows, sinks and the log-sum-exp are run-time options: they touch
// the edges of the work only.
//
//   head dim  models                     keys of a tile  what bounds the tile
//   64        small Llamas, gpt-oss      128             registers, of three warpgroups
//   128       Llama, Qwen3, Mistral      176             registers
//   256       Qwen3-Next, Qwen3.5        80              shared memory
#pragma once

#include <cstdint>

#include "attention/cuda/prefill_params.cuh"

namespace headrace::attention {

struct PrefillInstance {
  void (*kernel)(PrefillKernelParams) = nullptr;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
};

PrefillInstance prefill_bf16_d64(bool soft_cap);
PrefillInstance prefill_bf16_d128(bool soft_cap);
PrefillInstance prefill_bf16_d256(bool soft_cap);
PrefillInstance prefill_fp16_d64(bool soft_cap);
PrefillInstance prefill_fp16_d128(bool soft_cap);
PrefillInstance prefill_fp16_d256(bool soft_cap);

}  // namespace headrace::attention
