// SPDX-License-Identifier: Apache-2.0
// The inner loops for AVX2 + FMA. Plain loops and intrinsics only, all in an anonymous namespace.
#include "gdn/cpu/kernels.h"

namespace headrace::gdn {

const CpuKernels* avx2_kernels() { return nullptr; }

}  // namespace headrace::gdn
