// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general_instance.cuh"

namespace headrace::attention {

GeneralInstance general_bf16_bf16_d128(GeneralLoad load) {
  return general_instance_of<__nv_bfloat16, __nv_bfloat16, 128>(load);
}

}  // namespace headrace::attention
