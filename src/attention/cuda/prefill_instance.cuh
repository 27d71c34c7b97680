// SPDX-License-Identifier: Apache-2.0
// One head dim and type of the prefill kernel, as the table has it. Included by the files of the
// instantiations.
#pragma once

#include "attention/cuda/prefill_instances.h"
#include "attention/cuda/prefill_kernel.cuh"

namespace headrace::attention {

template <typename Traits>
PrefillInstance prefill_instance() {
  return {.kernel = prefill_kernel<Traits>,
          .num_threads = Traits::kThreads,
          .shared_bytes = static_cast<int32_t>(prefill_shared_bytes<Traits>())};
}

template <typename T, int kHeadDim>
PrefillInstance prefill_instance_of(bool soft_cap) {
  return soft_cap ? prefill_instance<PrefillTraits<T, kHeadDim, true>>()
                  : prefill_instance<PrefillTraits<T, kHeadDim, false>>();
}

}  // namespace headrace::attention
