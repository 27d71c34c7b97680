// SPDX-License-Identifier: Apache-2.0
#include "gdn/cuda/prefill_instance.cuh"

namespace headrace::gdn {

PrefillInstance prefill_bf16_d128() { return prefill_instance<__nv_bfloat16>(); }

}  // namespace headrace::gdn
