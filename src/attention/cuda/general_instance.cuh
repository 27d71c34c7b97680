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
          .shared_bytes = static_cast<int32_t>(sizeof(GeneralShared<Traits>)),
          .blocks_per_multiprocessor = Traits::kBlocksPerMultiprocessor,
          .queries = Traits::kQueries};
}

template <typename Io, typename Kv, int kHeadDim>
GeneralInstance general_instance_of(GeneralLoad load) {
  return load == GeneralLoad::kAsync
             ? general_instance<GeneralTraits<Io, Kv, kHeadDim, GeneralLoad::kAsync>>()
             : general_instance<GeneralTraits<Io, Kv, kHeadDim, GeneralLoad::kElements>>();
}

}  // namespace headrace::attention
