// SPDX-License-Identifier: Apache-2.0
// Drives the functions of patch_rules.h on the device. No rule lives here; patch.cc has the same
// loops for the CPU.
//   advance_and_apply: a warp a row. All lanes follow the row and its records alike, each with a
//     copy in registers; pages and blob words are divided among them, lane 0 stores the row.
//   fetch_patches: one block, for it waits for the host's memory and for nothing else.
#include "metadata/cuda/patch_kernel.h"
#include "metadata/patch_rules.h"
#include "tensor/cuda/launch.h"

namespace headrace::metadata {
namespace {

constexpr int kLanes = 32;
constexpr int kApplyThreads = 256;
constexpr int kFetchThreads = 1024;

__global__ void __launch_bounds__(kApplyThreads)
    advance_and_apply_kernel(AdvanceParams advance, PatchParams patch) {
  const auto thread = static_cast<int32_t>(blockIdx.x * kApplyThreads + threadIdx.x);
  const int32_t r = thread / kLanes;
  const int32_t lane = thread % kLanes;
  if (thread == 0) advance_step(advance);
  if (r >= patch.limits.max_rows) return;
  const uint64_t step = patch.queue.state->step + 1;
  PatchedRow row = load_patched_row(advance, patch.queue, r);
  uint64_t first = patch.queue.first_pending[r];
  __syncwarp();  // loads of all lanes before the stores of one
  patch_row(advance, patch, r, lane, kLanes, step, first, row);
  if (lane == 0) store_patched_row(advance, patch.queue, r, first, row);
}

__global__ void __launch_bounds__(kFetchThreads) fetch_patches_kernel(PatchParams params) {
  __shared__ PatchFetch shared_fetch;
  __shared__ unsigned long long least;
  constexpr unsigned long long kNone = ~0ull;
  if (threadIdx.x == 0) {
    shared_fetch = begin_fetch(params);
    least = kNone;
  }
  // Carries thread 0's acquire of the head to all.
  __syncthreads();
  const PatchFetch fetch = shared_fetch;
  const uint64_t num_pieces = (fetch.records_end - fetch.records_before) * kPatchRecordPieces;
  for (uint64_t i = threadIdx.x; i < num_pieces; i += kFetchThreads) {
    fetch_record_piece(params, fetch.records_before + 1 + i / kPatchRecordPieces,
                       static_cast<int32_t>(i % kPatchRecordPieces));
  }
  for (uint64_t w = fetch.words_before + kPatchWordGrain * threadIdx.x; w < fetch.words_end;
       w += kPatchWordGrain * kFetchThreads) {
    fetch_words(params, w);
  }
  __syncthreads();
  for (uint64_t n = fetch.records_before + 1 + threadIdx.x; n <= fetch.records_end;
       n += kFetchThreads) {
    link_record(params, fetch, n);
  }
  __syncthreads();
  for (int32_t r = static_cast<int32_t>(threadIdx.x); r < params.limits.max_rows;
       r += kFetchThreads) {
    const uint64_t first = params.queue.first_pending[r];
    if (first != 0) atomicMin(&least, static_cast<unsigned long long>(first));
  }
  __syncthreads();
  if (threadIdx.x == 0) end_fetch(params, fetch, least == kNone ? 0 : least);
}

}  // namespace

Status launch_advance_and_apply(cudaStream_t stream, const AdvanceParams& advance,
                                const PatchParams& patch) {
  constexpr int32_t kRowsPerBlock = kApplyThreads / kLanes;
  const LaunchShape shape{.grid = dim3(ceil_div(patch.limits.max_rows, kRowsPerBlock)),
                          .block = kApplyThreads};
  return launch_kernel(stream, shape, "launch of the metadata advance with patches",
                       advance_and_apply_kernel, advance, patch);
}

Status launch_fetch_patches(cudaStream_t stream, const PatchParams& params) {
  const LaunchShape shape{.grid = 1, .block = kFetchThreads};
  return launch_kernel(stream, shape, "launch of the patch fetch", fetch_patches_kernel, params);
}

}  // namespace headrace::metadata
