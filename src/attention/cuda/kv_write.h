// SPDX-License-Identifier: Apache-2.0
// The write of new keys and values into their pages on the GPU, for models that need nothing else
// there (ops/cuda/qkv_rope_write.h is the one with norm and RoPE). Capturable; replays may bring
// any rows within the limits.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

// All arrays are device memory. Any head dim, types and strides; vectors of 16 bytes are written
// where all of them are aligned. With `programmatic` the kernel may start before what precedes it
// has ended; every block passes its wait and then lets the next kernel start.
Status launch_kv_write(cudaStream_t stream, const KvWriteParams& params, bool programmatic = false);

}  // namespace headrace::attention
