// SPDX-License-Identifier: Apache-2.0
// Which piece of work of the general kernel has which number: pieces are (row, block of queries,
// key head), numbered with the longest first (longest_first.cuh), heads innermost. A query of a row
// is j = token of the row · group + query head of the key head's group, so that few tokens of many
// heads fill a block, too. Found by one warp from the step's arrays.
#pragma once

#include <cstdint>

#include "attention/cuda/general_params.cuh"
#include "attention/cuda/longest_first.cuh"

namespace headrace::attention {

struct GeneralItem {
  int32_t row = -1;  // −1: there is no such item
  int32_t kv_head = 0;
  int32_t first_query = 0;  // of the row
  int32_t num_queries = 0;  // 1…kQueries
  int32_t query_start = 0;  // the row's first token
  int32_t context_len = 0;
  int32_t seq_len = 0;
};

template <int kQueries>
struct GeneralRows {
  const GeneralParams* params;

  __device__ int32_t count() const {
    const metadata::Counts& counts = *params->attention.step.counts;
    return num_prefill_rows() +
           (params->rows == RowSet::kPrefill ? 0 : counts.num_decode_rows + counts.num_verify_rows);
  }
  __device__ int32_t row(int32_t i) const {
    const metadata::StepView& step = params->attention.step;
    if (i < num_prefill_rows()) return step.prefill_rows[i];
    i -= num_prefill_rows();
    const int32_t num_decode_rows = step.counts->num_decode_rows;
    return i < num_decode_rows ? step.decode_rows[i] : step.verify_rows[i - num_decode_rows];
  }
  __device__ int32_t keys(int32_t row) const {
    const int32_t seq_len = params->attention.step.seq_len[row];
    return params->window > 0 ? min(seq_len, params->window + kQueries) : seq_len;
  }
  __device__ int32_t blocks(int32_t row) const {
    return (params->attention.step.query_len[row] * params->group + kQueries - 1) / kQueries;
  }

 private:
  __device__ int32_t num_prefill_rows() const {
    return params->rows == RowSet::kDecode ? 0 : params->attention.step.counts->num_prefill_rows;
  }
};

// The search's state of one lane, to be kept in shared memory: the registers are needed elsewhere.
template <int kQueries>
struct GeneralWorkState {
  alignas(
      LongestFirst<GeneralRows<kQueries>>) char bytes[sizeof(LongestFirst<GeneralRows<kQueries>>)];
};

// By a whole warp; every lane with a state of its own.
template <int kQueries>
__device__ __forceinline__ void begin_general_work(const GeneralParams& params,
                                                   GeneralWorkState<kQueries>* state) {
  new (state->bytes) LongestFirst<GeneralRows<kQueries>>(GeneralRows<kQueries>{&params});
}

// `number` rises from call to call.
template <int kQueries>
__device__ __forceinline__ GeneralItem find_general_item(const GeneralParams& params,
                                                         GeneralWorkState<kQueries>* state,
                                                         int32_t number) {
  auto& blocks = *reinterpret_cast<LongestFirst<GeneralRows<kQueries>>*>(state->bytes);
  const metadata::StepView& step = params.attention.step;
  const int32_t num_kv_heads = params.attention.heads.num_kv_heads;
  const int32_t block = number / num_kv_heads;
  const RowBlock found = blocks.find(block);
  GeneralItem item;
  item.row = found.row;
  if (item.row < 0) return item;
  const int32_t num_queries = step.query_len[item.row] * params.group;
  item.kv_head = number - block * num_kv_heads;
  item.first_query = found.block * kQueries;
  item.num_queries = min(kQueries, num_queries - item.first_query);
  item.query_start = step.query_start_i32[item.row];
  item.context_len = step.context_len[item.row];
  item.seq_len = step.seq_len[item.row];
  return item;
}

}  // namespace headrace::attention
