// SPDX-License-Identifier: Apache-2.0
// The tables' choice: which inner loops this machine uses.
#include "gdn/cpu/kernels.h"

#include "base/cpu_features.h"
#include "gdn/cpu/kernels_avx2.h"

namespace headrace::gdn {

const CpuKernels& avx2_kernels() {
  static constexpr CpuKernels kKernels{
      .conv = avx2::conv,
      .silu = avx2::silu,
      .silu_l2norm = avx2::silu_l2norm,
      .gated_rms_norm = avx2::gated_rms_norm,
      .delta_steps = avx2::delta_steps,
      .gemm = avx2::gemm,
      .decay_row = avx2::decay_row,
  };
  return kKernels;
}

const CpuKernels& cpu_kernels() {
  return cpu_isa() == Isa::kAvx2 ? avx2_kernels() : scalar_kernels();
}

}  // namespace headrace::gdn
