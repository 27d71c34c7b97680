// SPDX-License-Identifier: Apache-2.0
// The one door to attention on the GPU: the rows of every kind of a step, by the fastest path that
// takes them. All that the host decides, and the tensor maps of the copy engine, are made once, in
// prepare_attention(); after that a step is one to three kernel launches that read nothing but
// device arrays, so they can be captured and replayed with any rows within the limits.
//
//   HEADRACE_ASSIGN_OR_RETURN(AttentionLaunch attention, prepare_attention(params, options));
//   HEADRACE_RETURN_IF_ERROR(launch_attention(stream, attention));  // in every step, or captured
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>

#include "attention/attention_params.h"
#include "attention/cuda/decode.h"
#include "attention/cuda/general.h"
#include "attention/cuda/plain.h"
#include "attention/cuda/prefill.h"
#include "headrace/status.h"
#include "metadata/split.h"

namespace headrace::attention {

struct AttentionOptions {
  // The split of the decode work: split_view(step), or one of build_split() for layers with a
  // window and for the fixed cut. shape.window must be the attention's window, or 0.
  metadata::SplitView split;
  // New tokens of the longest decode or verify row in any step of the launch: 1…kMaxVerifyTokens.
  int32_t max_query_len = 1;
  // False: no step of the launch has prefill rows; nothing is launched for them.
  bool has_prefill_rows = true;
  // Device memory of attention_workspace_bytes(), kept for as long as the launch is used and shared
  // only by launches of one stream (all layers of a step, say). Its first kAttentionQueueBytes must
  // be zero before the first launch that uses it: Buffer::allocate_zeroed(), or one
  // clear_attention_workspace(). Every launch leaves them zero; the rest may hold anything.
  void* workspace = nullptr;
  // As in DecodeOptions: programmatic dependent launch, and pages of past tokens fetched early. The
  // launch begins with the decode rows, so its predecessor is the caller's.
  bool programmatic = false;
  bool early_pages = false;
};

// One or two of these, with all rows of the step between them.
struct AttentionLaunch {
  std::optional<DecodeLaunch> decode;    // decode and verify rows, padding
  std::optional<PrefillLaunch> prefill;  // prefill rows
  std::optional<GeneralLaunch> general;  // what these leave, tensor cores
  std::optional<PlainLaunch> plain;      // what is left then
};

// What runs: "decode bf16, KV bf16, D 128, 8 queries a pass, tensor copies; prefill bf16 d128, …".
std::string to_string(const AttentionLaunch& launch);

inline constexpr int64_t kAttentionQueueBytes = 256;

// Bytes of AttentionOptions::workspace; from maxima alone.
int64_t attention_workspace_bytes(const HeadShape& heads, const metadata::Limits& limits,
                                  const metadata::SplitShape& shape, int32_t max_query_len);
Status clear_attention_workspace(cudaStream_t stream, void* workspace);

// params.step and all arrays are device memory. kInvalidArgument: a broken option or shape;
// kUnsupported: element types that no path takes.
Result<AttentionLaunch> prepare_attention(const AttentionParams& params,
                                          const AttentionOptions& options);

// Writes out and lse of every token of the step, and zeros (lse −inf) for padding tokens. Where
// options.has_prefill_rows was false, tokens of prefill rows stay as they are.
Status launch_attention(cudaStream_t stream, const AttentionLaunch& launch);

}  // namespace headrace::attention
