// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/decode_instances.h"

namespace headrace::attention {

std::vector<DecodeInstance> decode_bf16_bf16_d256() {
  return decode_instances_of<__nv_bfloat16, __nv_bfloat16, 256>();
}

}  // namespace headrace::attention
