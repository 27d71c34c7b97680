// SPDX-License-Identifier: Apache-2.0
#include "gdn/cuda/prefill_instance.cuh"

namespace headrace::gdn {

PrefillInstance prefill_fp16_d128() { return prefill_instance<__half>(); }

}  // namespace headrace::gdn
