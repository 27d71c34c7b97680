// SPDX-License-Identifier: Apache-2.0
// What the general kernel is given. Made on the host; knows no tile shape.
#pragma once

#include <cstdint>

#include "attention/attention_params.h"
#include "attention/cuda/row_set.h"
#include "attention/cuda/work_queue.h"
#include "metadata/fast_divide.h"

namespace headrace::attention {

struct GeneralParams {
  AttentionParams attention;
  RowSet rows = RowSet::kAll;
  WorkQueue* queue = nullptr;  // [1]
  int32_t group = 1;           // Hq / Hkv
  metadata::FastDivisor by_group;
  metadata::FastDivisor by_page_size;
  int32_t window = 0;       // 0 = all keys
  bool async = false;       // K and V can be copied 16 bytes at a time
  bool vector_q = false;    // q can be read 16 bytes at a time
  bool vector_out = false;  // out can be written 4 bytes at a time
};

}  // namespace headrace::attention
