// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general_instance.cuh"

namespace headrace::attention {

GeneralInstance general_bf16_bf16_d256(bool wide) {
  return general_instance_of<__nv_bfloat16, __nv_bfloat16, 256>(wide);
}

}  // namespace headrace::attention
