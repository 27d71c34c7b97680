// SPDX-License-Identifier: Apache-2.0
// Decode and verify attention on the GPU: rows of at most kMaxVerifyTokens new tokens over their
// pages. What a launch needs of the host is made once, in prepare_decode(): after that a step is
// two launches with nothing but device arrays to read, so they can be captured and replayed with
// any lengths, kinds of rows and counts within the limits.
//
//   HEADRACE_ASSIGN_OR_RETURN(DecodeLaunch decode, prepare_decode(params, options));
//   HEADRACE_RETURN_IF_ERROR(launch_decode(stream, decode));   // in every step, or captured
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/cuda/decode_config.h"
#include "attention/cuda/decode_params.h"
#include "headrace/status.h"
#include "metadata/split.h"

namespace headrace::attention {

struct DecodeOptions {
  // The split that the launch follows: split_view(step), or one of build_split() for layers with a
  // window and for the fixed cut. shape.window must be the attention's window, or 0.
  metadata::SplitView split;
  // New tokens of the longest decode or verify row in any step of the launch: 1…kMaxVerifyTokens.
  int32_t max_query_len = 1;
  // Device memory of decode_workspace_bytes(), kept for as long as the launch is used. Layers may
  // share it. Its content means nothing between two launches.
  void* workspace = nullptr;
  // Programmatic dependent launch: both kernels may start before what precedes them has ended. To
  // what follows the two are one kernel: it may start as soon as the kernel right before this
  // launch has ended, so what it reads before its own wait must not be written by this launch.
  bool programmatic = false;
  // Besides, pages of past tokens are fetched before that. Safe when the metadata and the keys and
  // values of past tokens were written by kernels that had ended before the kernel right before
  // this launch began (or passed its own wait); the usual order is
  //   build of the step → … → kv_write of this layer → this launch.
  bool early_pages = false;
};

struct DecodeLaunch {
  DecodeParams params;
  KvTensorMaps maps;
  DecodeConfig config;
  void (*decode)(DecodeParams, KvTensorMaps) = nullptr;
  void (*combine)(DecodeParams) = nullptr;
  dim3 decode_grid;
  dim3 combine_grid;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
  bool programmatic = false;
};

// Bytes of DecodeOptions::workspace; from maxima alone.
int64_t decode_workspace_bytes(const HeadShape& heads, const metadata::Limits& limits,
                               const metadata::SplitShape& shape, int32_t max_query_len);

// params.step and all arrays are device memory. kUnsupported: no decode kernel takes it (the plain
// path does); kInvalidArgument: a broken option.
Result<DecodeLaunch> prepare_decode(const AttentionParams& params, const DecodeOptions& options);

// Writes out and lse of the tokens of decode and verify rows, and zeros (lse −inf) for padding
// tokens; tokens of prefill rows stay as they are.
Status launch_decode(cudaStream_t stream, const DecodeLaunch& launch);

}  // namespace headrace::attention
