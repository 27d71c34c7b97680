// SPDX-License-Identifier: Apache-2.0
// What the prefill kernel is given. Made by the launcher on the host; knows no tile shape.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/attention_params.h"
#include "attention/cuda/prefill_config.h"
#include "attention/cuda/work_queue.h"
#include "headrace/status.h"
#include "metadata/step.h"

namespace headrace::attention {

struct PrefillKernelParams {
  // [Hq, D / 64, T, 64]; a box is [1, D / 64, 64, 64].
  CUtensorMap query_map;
  // [pages, page_size / 8, slices, 8, 64], slices of 64 elements counted from head 0 through the
  // heads; a box is [1, box_tokens / 8, D / 64, 8, 64]. Page num_pages is outside: it reads zero.
  CUtensorMap key_map;
  CUtensorMap value_map;
  int32_t num_pages = 0;
  int32_t page_size = 0;
  int32_t box_tokens = 0;       // divides page_size and the keys of a tile
  int32_t slices_per_head = 0;  // head_stride / 64

  void* out = nullptr;           // [T, Hq, D]
  int64_t out_stride = 0;        // elements from token to token
  float* lse = nullptr;          // [T, Hq] or null
  const float* sinks = nullptr;  // [Hq] or null

  int32_t num_q_heads = 0;
  int32_t group_size = 0;  // Hq / Hkv
  int32_t window = 0;      // 0 = all keys
  // With a soft cap, a score s becomes tanh(s · cap_scale); then it counts 2^(s · log2_scale).
  float cap_scale = 0.0f;
  float log2_scale = 1.0f;

  // Of the step; see metadata::StepView.
  const metadata::Counts* counts = nullptr;
  const int32_t* prefill_rows = nullptr;
  const int32_t* query_len = nullptr;
  const int32_t* context_len = nullptr;
  const int32_t* query_start = nullptr;
  const int32_t* page_table = nullptr;
  int32_t max_pages_per_row = 0;

  WorkQueue* queue = nullptr;  // [1]
};

// `config` as choose_prefill_kernel() gave it.
Result<PrefillKernelParams> make_prefill_params(const AttentionParams& params,
                                                const PrefillConfig& config, WorkQueue* queue);

}  // namespace headrace::attention
