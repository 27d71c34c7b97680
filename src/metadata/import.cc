// SPDX-License-Identifier: Apache-2.0
// Drives the functions of import.h by plain loops on the CPU.
#include "metadata/import.h"

#include "base/check.h"

namespace headrace::metadata {
namespace {

void import_row(const ImportParams& params, int32_t r) {
  const ImportedRow row = import_lengths(params, r);
  const int64_t base = static_cast<int64_t>(r) * params.limits.max_pages_per_row;
  bool broken = row.broken;
  for (int32_t i = 0; !broken && i < row.num_pages; ++i) {
    broken = !page_is_sound(params, row.pages[i]);
    params.input.page_table[base + i] = row.pages[i];
  }
  const bool keyless = is_keyless(row, broken);
  params.input.rows[r] = row_in_step(params, row, keyless);
  params.keyless[r] = keyless ? 1 : 0;
  if (keyless) {
    for (int32_t i = 0; i < params.input.rows[r].num_pages; ++i) {
      params.input.page_table[base + i] = 0;
    }
  }
  if (broken) {
    ++params.errors->broken_rows;
    params.errors->last_broken_row = r;
  }
}

}  // namespace

void import_batch(Stream& stream, const ImportParams& params) {
  HEADRACE_CHECK(stream.device() == Device::kCpu);
  static_cast<CpuStream&>(stream).run([params](ThreadPool&) {
    int32_t rows = import_rows_in_use(params);
    bool sound = true;
    for (int32_t r = 0; r <= rows; ++r) sound = sound && query_indptr_is_sound(params, r);
    if (!sound) {
      ++params.errors->broken_batches;
      rows = 0;
    }
    *params.input.num_rows = rows;
    *params.input.padded_rows = rows;
    *params.input.num_checkpoints = 0;
    for (int32_t r = 0; r < rows; ++r) import_row(params, r);
    for (int32_t r = rows; r < params.limits.max_rows; ++r) params.keyless[r] = 0;
  });
}

}  // namespace headrace::metadata
