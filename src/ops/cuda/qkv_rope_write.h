// SPDX-License-Identifier: Apache-2.0
// From the packed projection to rotated queries and written pages on the GPU: norm of q and k, RoPE
// and the KV write of a layer in one launch. What a launch needs of the host is made once, in
// prepare_qkv_rope_write(); a launch can be captured and replayed with any rows.
#pragma once

#include <cuda_runtime_api.h>

#include "headrace/status.h"
#include "ops/cuda/qkv_rope_write_config.h"
#include "ops/ops_params.h"

namespace headrace::ops {

struct QkvRopeWriteOptions {
  // Programmatic dependent launch: the kernel may start before what precedes it has ended. Every
  // block passes its wait and then lets the next kernel start, blocks without work too: decode
  // attention behind it may fetch pages early (DecodeOptions::early_pages).
  bool programmatic = false;
  // Besides, positions are read, and cosines made of them, before that. Safe when the metadata was
  // written by kernels that had ended before the kernel right before this launch began (or passed
  // its own wait).
  bool early_metadata = false;
};

struct QkvRopeWriteLaunch {
  QkvRopeWriteParams params;
  QkvRopeWriteConfig config;
  void (*kernel)(QkvRopeWriteParams, bool early_metadata) = nullptr;
  dim3 grid;
  QkvRopeWriteOptions options;
};

// All arrays of `params` are device memory. kUnsupported or kInvalidArgument, with the reason.
Result<QkvRopeWriteLaunch> prepare_qkv_rope_write(const QkvRopeWriteParams& params,
                                                  const QkvRopeWriteOptions& options);
Status launch_qkv_rope_write(cudaStream_t stream, const QkvRopeWriteLaunch& launch);

}  // namespace headrace::ops
