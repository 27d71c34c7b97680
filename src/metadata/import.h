// SPDX-License-Identifier: Apache-2.0
// Turns a batch as other engines keep it (page lists with indptr, or a block table with lengths)
// into the rows and the page table of a step. Knows nothing of attention. Values on the device
// cannot be reported when they are wrong, so every one is checked here: a row that is broken, or
// has no keys, stands in the step with its query tokens over page 0, so that the tokens behind it
// keep their places, and is listed in `keyless` for who must make its result zero.
#pragma once

#include <cstdint>

#include "metadata/arrays.h"
#include "metadata/host_device.h"
#include "metadata/index.h"
#include "metadata/step.h"
#include "tensor/stream.h"

namespace headrace::metadata {

struct ImportErrors {
  int32_t broken_rows = 0;
  int32_t broken_batches = 0;
  int32_t last_broken_row = -1;
};

struct ImportParams {
  const int32_t* query_indptr = nullptr;  // [num_rows + 1]; null: one token a row
  // Either these three,
  const int32_t* page_indptr = nullptr;    // [num_rows + 1]
  const int32_t* page_indices = nullptr;   // [num_page_indices]
  const int32_t* last_page_len = nullptr;  // [num_rows]
  int64_t num_page_indices = 0;
  // or these.
  const int32_t* block_table = nullptr;  // [num_rows, block_table_stride]
  int64_t block_table_stride = 0;
  const int32_t* seq_lens = nullptr;  // [num_rows]

  int32_t num_rows = 0;
  const int32_t* num_rows_in_use = nullptr;  // [1]; null: num_rows
  int32_t num_pages = 0;                     // page numbers are below it
  int32_t max_decode_query_len = 1;          // longer rows are prefill rows,
  bool decode_only = false;                  // or, with this, broken
  Limits limits;                             // max_tokens: of this batch
  StepInput input;                           // out
  uint8_t* keyless = nullptr;                // [R] out
  ImportErrors* errors = nullptr;            // [1] in and out
};

// A row as the arrays describe it, its pages not yet looked at.
struct ImportedRow {
  int32_t query_len = 0;
  int32_t seq_len = 0;
  int32_t num_pages = 0;
  const int32_t* pages = nullptr;
  bool broken = false;
};

HEADRACE_HOST_DEVICE inline int32_t import_rows_in_use(const ImportParams& params) {
  const int32_t rows =
      params.num_rows_in_use == nullptr ? params.num_rows : *params.num_rows_in_use;
  return max_i32(0, min_i32(rows, params.num_rows));
}

// Whether entry r of query_indptr, 0 … rows in use, is as it must be.
HEADRACE_HOST_DEVICE inline bool query_indptr_is_sound(const ImportParams& params, int32_t r) {
  if (params.query_indptr == nullptr) return r <= params.limits.max_tokens;
  const int32_t end = params.query_indptr[r];
  if (r == 0) return end == 0;
  const int64_t own = static_cast<int64_t>(end) - params.query_indptr[r - 1];
  const int64_t max_len =
      static_cast<int64_t>(params.limits.max_pages_per_row) * params.limits.page_size;
  return own >= 0 && own <= max_len && end <= params.limits.max_tokens;
}

HEADRACE_HOST_DEVICE inline ImportedRow import_lengths(const ImportParams& params, int32_t r) {
  const int32_t page_size = params.limits.page_size;
  ImportedRow row;
  row.query_len =
      params.query_indptr == nullptr ? 1 : params.query_indptr[r + 1] - params.query_indptr[r];
  if (params.block_table != nullptr) {
    row.seq_len = params.seq_lens[r];
    row.broken = row.seq_len < 0;
    row.num_pages = row.broken ? 0 : pages_for(row.seq_len, page_size);
    row.pages = params.block_table + r * params.block_table_stride;
    row.broken = row.broken || row.num_pages > params.block_table_stride;
  } else {
    const int32_t begin = params.page_indptr[r];
    const int64_t count = static_cast<int64_t>(params.page_indptr[r + 1]) - begin;
    row.broken = begin < 0 || count < 0 || count > params.limits.max_pages_per_row ||
                 begin + count > params.num_page_indices;
    if (!row.broken && count > 0) {
      const int32_t last = params.last_page_len[r];
      row.broken = last < 1 || last > page_size;
      row.num_pages = static_cast<int32_t>(count);
      row.pages = params.page_indices + begin;
      row.seq_len = (row.num_pages - 1) * page_size + last;
    }
  }
  // Keys that are there are those of the query tokens and what lies before them.
  row.broken = row.broken || row.num_pages > params.limits.max_pages_per_row ||
               (row.seq_len > 0 && row.seq_len < row.query_len) ||
               (params.decode_only && row.query_len > params.max_decode_query_len);
  return row;
}

HEADRACE_HOST_DEVICE inline bool page_is_sound(const ImportParams& params, int32_t page) {
  return page >= 0 && page < params.num_pages;
}

// Whether a row's result is zero instead of attention; `broken`: it is, or one of its pages.
HEADRACE_HOST_DEVICE inline bool is_keyless(const ImportedRow& row, bool broken) {
  return row.query_len > 0 && (broken || row.seq_len == 0);
}

// The row in the step. Rows past those in use, and all rows of a broken batch, are padding.
HEADRACE_HOST_DEVICE inline Row row_in_step(const ImportParams& params, const ImportedRow& imported,
                                            bool keyless) {
  Row row;
  row.query_len = imported.query_len;
  const int32_t seq_len = keyless ? imported.query_len : imported.seq_len;
  row.context_len = row.query_len == 0 ? 0 : seq_len - row.query_len;
  row.num_pages = pages_for(row.context_len + row.query_len, params.limits.page_size);
  if (row.query_len <= params.max_decode_query_len) {
    row.num_drafts = max_i32(0, row.query_len - 1);
    row.flags = kRowStateless;
  }
  return row;
}

// Submits one launch: no allocation, nothing read back. The rows it makes need no check_rows().
void import_batch(Stream& stream, const ImportParams& params);

}  // namespace headrace::metadata
