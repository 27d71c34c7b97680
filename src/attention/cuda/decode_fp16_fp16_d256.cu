// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/decode_instances.h"

namespace headrace::attention {

std::vector<DecodeInstance> decode_fp16_fp16_d256() {
  return decode_instances_of<__half, __half, 256>();
}

}  // namespace headrace::attention
