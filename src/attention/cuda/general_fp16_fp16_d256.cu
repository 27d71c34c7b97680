// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/general_instance.cuh"

namespace headrace::attention {

GeneralInstance general_fp16_fp16_d256(bool wide) {
  return general_instance_of<__half, __half, 256>(wide);
}

}  // namespace headrace::attention
