// SPDX-License-Identifier: Apache-2.0
// One line of the table of general kernels. Included by the files of the instantiations.
#pragma once

#include "attention/cuda/general_instances.h"
#include "attention/cuda/general_kernel.cuh"

namespace headrace::attention {

template <typename Traits>
GeneralInstance general_instance() {
  return {.kernel = general_kernel<Traits>,
          .num_threads = Traits::kThreads,
          .shared_bytes = static_cast<int32_t>(sizeof(GeneralShared<Traits>))};
}

template <typename Io, typename Kv, int kHeadDim>
GeneralInstance general_instance_of(bool wide) {
  if constexpr (kHeadDim == 256) {
    if (wide) return general_instance<GeneralTraits<Io, Kv, kHeadDim, true>>();
  }
  return general_instance<GeneralTraits<Io, Kv, kHeadDim, false>>();
}

}  // namespace headrace::attention
