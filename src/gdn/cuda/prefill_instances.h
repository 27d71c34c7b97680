// SPDX-License-Identifier: Apache-2.0
// Which chunked prefill kernels are built: bf16 and fp16 activations, one a file. Type of the state
// and format of the gates are run-time options: they touch the edges of the work only.
#pragma once

#include <cstdint>

#include "gdn/cuda/prefill_params.cuh"

namespace headrace::gdn {

struct PrefillInstance {
  void (*terms)(PrefillKernelParams) = nullptr;
  void (*scan)(PrefillKernelParams) = nullptr;
  int32_t terms_threads = 0;
  int32_t scan_threads = 0;
  int32_t terms_shared_bytes = 0;
  int32_t scan_shared_bytes = 0;
};

PrefillInstance prefill_bf16_d128();
PrefillInstance prefill_fp16_d128();

}  // namespace headrace::gdn
