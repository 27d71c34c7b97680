// SPDX-License-Identifier: Apache-2.0
// Whether the Hopper kernels of chunked prefill run for given parameters, and how they share the
// work out. Decided from shapes, types, strides and alignment, and on the device from the number of
// rows. Knows no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "gdn/parts_params.h"
#include "headrace/status.h"
#include "metadata/host_device.h"
#include "metadata/index.h"

namespace headrace::gdn {

struct PrefillConfig {
  DType dtype = DType::kBF16;
  int32_t terms_blocks = 0;  // of the kernel that makes the chunks' terms
  int32_t scan_blocks = 0;

  // "hopper prefill bf16, 396 + 132 blocks"
  std::string to_string() const;
};

// kUnsupported, with the reason, for what these kernels do not take: heads other than 128 × 128,
// fp32, strides that are no multiple of 16 bytes.
Result<PrefillConfig> choose_prefill_kernel(const DeltaRuleParams& params,
                                            int32_t num_multiprocessors);

// Whether `heads` (value heads of all rows) are better given to `num_blocks` blocks by halves. A
// block takes about 9 times as long for a head's chunk as 5 times for half of it; rows are taken to
// be equally long.
HEADRACE_HOST_DEVICE constexpr bool halve_scan_items(int32_t heads, int32_t num_blocks) {
  return 5 * metadata::ceil_div(2 * heads, num_blocks) < 9 * metadata::ceil_div(heads, num_blocks);
}

}  // namespace headrace::gdn
