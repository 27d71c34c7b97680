// SPDX-License-Identifier: Apache-2.0
// Drives the functions of import.h on the device: a block a row, its threads copy and check the
// pages, several each before the first is stored: a long row is a chain of latencies. Every block
// looks at the whole query_indptr, since one break in it breaks the batch.
#include "metadata/cuda/import_kernel.h"

#include "tensor/cuda/launch.h"

namespace headrace::metadata {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 8;  // pages a thread

// A row in use of a sound batch; the whole block calls it.
__device__ void import_row(const ImportParams& params, int32_t r) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const ImportedRow row = import_lengths(params, r);
  int32_t* table =
      params.input.page_table + static_cast<int64_t>(r) * params.limits.max_pages_per_row;
  bool page_broken = false;
  const int32_t num_pages = row.broken ? 0 : row.num_pages;
  for (int32_t first = thread; first < num_pages; first += kInFlight * kThreads) {
    int32_t pages[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int32_t i = first + k * kThreads;
      pages[k] = i < num_pages ? row.pages[i] : kNullPage;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int32_t i = first + k * kThreads;
      page_broken = page_broken || !page_is_sound(params, pages[k]);
      if (i < num_pages) table[i] = pages[k];
    }
  }
  const bool broken = __syncthreads_or(page_broken ? 1 : 0) != 0 || row.broken;
  const bool keyless = is_keyless(row, broken);
  const Row in_step = row_in_step(params, row, keyless);
  for (int32_t i = thread; keyless && i < in_step.num_pages; i += kThreads) table[i] = 0;
  if (thread != 0) return;
  params.input.rows[r] = in_step;
  params.keyless[r] = keyless ? 1 : 0;
  if (broken) {
    atomicAdd(&params.errors->broken_rows, 1);
    params.errors->last_broken_row = r;
  }
}

__global__ void __launch_bounds__(kThreads) import_kernel(ImportParams params) {
  const auto r = static_cast<int32_t>(blockIdx.x);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t in_use = import_rows_in_use(params);
  bool unsound = false;
  for (int32_t i = thread; i <= in_use; i += kThreads) {
    unsound = unsound || !query_indptr_is_sound(params, i);
  }
  const bool broken = __syncthreads_or(unsound ? 1 : 0) != 0;
  const int32_t rows = broken ? 0 : in_use;
  if (r == 0 && thread == 0) {
    *params.input.num_rows = rows;
    *params.input.padded_rows = rows;
    *params.input.num_checkpoints = 0;
    if (broken) atomicAdd(&params.errors->broken_batches, 1);
  }
  if (r < rows) {
    import_row(params, r);
  } else if (thread == 0) {
    params.keyless[r] = 0;
  }
}

}  // namespace

Status launch_import(cudaStream_t stream, const ImportParams& params) {
  return launch_kernel(
      stream, {.grid = dim3(static_cast<uint32_t>(params.limits.max_rows)), .block = kThreads},
      "launch of the batch import", import_kernel, params);
}

}  // namespace headrace::metadata
