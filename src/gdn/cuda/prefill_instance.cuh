// SPDX-License-Identifier: Apache-2.0
// One type of the chunked prefill kernels, as the table has it. Included by the files of the
// instantiations.
#pragma once

#include "gdn/cuda/prefill_instances.h"
#include "gdn/cuda/prefill_scan.cuh"
#include "gdn/cuda/prefill_terms.cuh"

namespace headrace::gdn {

// Shared memory is aligned to atoms by the kernels.
template <typename T>
PrefillInstance prefill_instance() {
  using Traits = PrefillTraits<T>;
  return {.terms = prefill_terms_kernel<T>,
          .scan = prefill_scan_kernel<Traits>,
          .terms_threads = 128,
          .scan_threads = Traits::kThreads,
          .terms_shared_bytes = static_cast<int32_t>(sizeof(TermsShared) + kAtomBytes),
          .scan_shared_bytes = static_cast<int32_t>(sizeof(ScanShared<Traits>) + kAtomBytes)};
}

}  // namespace headrace::gdn
