// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/decode_instances.h"

namespace headrace::attention {

std::vector<DecodeInstance> decode_fp16_fp8_d64() {
  return decode_instances_of<__half, __nv_fp8_e4m3, 64>();
}

}  // namespace headrace::attention
