// SPDX-License-Identifier: Apache-2.0
// What launches need to know of the GPU. Asked of the driver once a device.
#pragma once

#include <cstdint>

#include "headrace/status.h"

namespace headrace {

struct GpuProperties {
  int32_t num_multiprocessors = 0;
  int32_t compute_capability = 0;  // 90 for 9.0
  int32_t max_shared_bytes = 0;    // of a thread block that asks for it
};

// Of the current device.
Result<GpuProperties> gpu_properties();

}  // namespace headrace
