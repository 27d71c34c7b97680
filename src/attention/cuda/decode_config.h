// SPDX-License-Identifier: Apache-2.0
// Which decode kernel takes a problem, and with how many workers. Pure functions of shapes and
// strides: they can be printed and tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "attention/attention_params.h"
#include "headrace/status.h"

namespace headrace::attention {

enum class KvLoad {
  kTensorCopy,  // the copy engine fetches 16 tokens of a page at once
  kGather,      // threads fetch 16 bytes each: pages that are no multiple of 16 tokens
};

struct DecodeConfig {
  DType io_dtype = DType::kBF16;
  DType kv_dtype = DType::kBF16;
  int32_t head_dim = 0;
  int32_t query_tiles = 1;  // of 8 queries, treated in one pass over a row's keys
  KvLoad load = KvLoad::kTensorCopy;

  bool operator==(const DecodeConfig&) const = default;
};

// "decode bf16, KV fp8_e4m3, D 128, 16 queries a pass, tensor copies"
std::string to_string(const DecodeConfig& config);

// kUnsupported names what no decode kernel takes; the plain path takes all that check_heads() and
// check_cache() let pass. `max_query_len`: of the longest verify row, 1 without.
Result<DecodeConfig> choose_decode(const AttentionParams& params, int32_t max_query_len);

// Workers for each key head (Limits::num_workers): two thread blocks on every multiprocessor.
int32_t decode_workers(int32_t num_multiprocessors, int32_t num_kv_heads);

}  // namespace headrace::attention
