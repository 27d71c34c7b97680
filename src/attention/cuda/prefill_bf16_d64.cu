// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/prefill_instance.cuh"

namespace headrace::attention {

PrefillInstance prefill_bf16_d64(bool soft_cap) {
  return prefill_instance_of<__nv_bfloat16, 64>(soft_cap);
}

}  // namespace headrace::attention
