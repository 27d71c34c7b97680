// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general_instance.cuh"

namespace headrace::attention {

GeneralInstance general_fp16_fp8_d64(bool wide) {
  return general_instance_of<__half, __nv_fp8_e4m3, 64>(wide);
}

}  // namespace headrace::attention
