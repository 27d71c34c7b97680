// SPDX-License-Identifier: Apache-2.0
// Which piece of prefill work has which number: pieces are (row, block of queries, head), numbered
// with the longest first (longest_first.cuh), heads innermost, so that the blocks at work at the
// same time share keys. Found by one warp from the step's arrays; knows nothing of tiles in shared
// memory.
#pragma once

#include <cstdint>

#include "attention/cuda/longest_first.cuh"
#include "attention/cuda/prefill_params.cuh"

namespace headrace::attention {

struct PrefillItem {
  int32_t row = -1;            // −1: there is no such item
  int32_t head = 0;            // query head
  int32_t first_token = 0;     // of the block, index in the step
  int32_t num_queries = 0;     // of the block, 1…kBlockQueries
  int32_t first_position = 0;  // of the block's first query in the sequence
  int32_t seq_len = 0;
};

template <int kBlockQueries>
struct PrefillRows {
  const PrefillKernelParams* params;
  __device__ int32_t count() const { return params->counts->num_prefill_rows; }
  __device__ int32_t row(int32_t i) const { return params->prefill_rows[i]; }
  __device__ int32_t keys(int32_t row) const {
    const int32_t seq_len = params->context_len[row] + params->query_len[row];
    return params->window > 0 ? min(seq_len, params->window + kBlockQueries) : seq_len;
  }
  __device__ int32_t blocks(int32_t row) const {
    return (params->query_len[row] + kBlockQueries - 1) / kBlockQueries;
  }
};

// As LongestFirst: by a whole warp, in rising order.
template <int kBlockQueries>
class PrefillWork {
 public:
  __device__ explicit PrefillWork(const PrefillKernelParams& params)
      : params_(params), blocks_(PrefillRows<kBlockQueries>{&params}) {}

  __device__ PrefillItem find(int32_t number) {
    const int32_t block = number / params_.num_q_heads;
    const RowBlock found = blocks_.find(block);
    PrefillItem item;
    item.row = found.row;
    if (item.row < 0) return item;
    const int32_t query_len = params_.query_len[item.row];
    const int32_t context_len = params_.context_len[item.row];
    const int32_t first_query = found.block * kBlockQueries;
    item.head = number - block * params_.num_q_heads;
    item.first_token = params_.query_start[item.row] + first_query;
    item.num_queries = min(kBlockQueries, query_len - first_query);
    item.first_position = context_len + first_query;
    item.seq_len = context_len + query_len;
    return item;
  }

 private:
  const PrefillKernelParams& params_;
  LongestFirst<PrefillRows<kBlockQueries>> blocks_;
};

}  // namespace headrace::attention
