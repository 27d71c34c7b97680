// SPDX-License-Identifier: Apache-2.0
// Drives the index functions of derive.h on the device: one thread block, threads stride over rows,
// tokens and chunks, sums over rows by a block-wide scan. No rule lives here; build.cc is the same
// driver as plain loops.
#include "metadata/cuda/build_kernel.h"

#include <string>

#include "metadata/derive.h"

namespace headrace::metadata {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarpSize = 32;
constexpr int kWarps = kThreads / kWarpSize;
constexpr unsigned kAllLanes = 0xffffffffu;

// A single sum with the shape of RowSums.
struct Sum {
  int32_t value = 0;
  __device__ void add(const Sum& other) { value += other.value; }
};

// The struct of the lane `distance` below; structs of 32-bit words only.
template <typename T>
__device__ T shuffle_up(const T& from, int distance) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  constexpr int kWords = sizeof(T) / sizeof(int32_t);
  T result;
  const auto* source = reinterpret_cast<const int32_t*>(&from);
  auto* target = reinterpret_cast<int32_t*>(&result);
#pragma unroll
  for (int i = 0; i < kWords; ++i) target[i] = __shfl_up_sync(kAllLanes, source[i], distance);
  return result;
}

// Inclusive over the lanes of a warp.
template <typename T>
__device__ T warp_scan(T sum) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const T below = shuffle_up(sum, distance);
    if (lane >= distance) sum.add(below);
  }
  return sum;
}

template <typename T>
struct ScanStorage {
  T warp_sums[kWarps];
};

// What lies before this thread's `own`, and the block's total into *total. All threads call it.
template <typename T>
__device__ T block_scan(ScanStorage<T>& storage, const T& own, T* total) {
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const T inclusive = warp_scan(own);
  T before = shuffle_up(inclusive, 1);
  if (lane == 0) before = T{};
  if (lane == kWarpSize - 1) storage.warp_sums[warp] = inclusive;
  __syncthreads();
  T prefix;
  *total = T{};
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) prefix.add(storage.warp_sums[w]);
    total->add(storage.warp_sums[w]);
  }
  __syncthreads();  // the storage is free for the next scan
  prefix.add(before);
  return prefix;
}

// Calls write(r, before, own) for every row with own = sums(r) and what the rows before it sum to.
// Returns the total.
template <typename T, typename Sums, typename Write>
__device__ T scan_rows(ScanStorage<T>& storage, int32_t num_rows, Sums sums, Write write) {
  T carried;
  for (int32_t base = 0; base < num_rows; base += kThreads) {
    const int32_t r = base + static_cast<int32_t>(threadIdx.x);
    T own;
    if (r < num_rows) own = sums(r);
    T total;
    T before = block_scan(storage, own, &total);
    before.add(carried);
    if (r < num_rows) write(r, before, own);
    carried.add(total);
  }
  return carried;
}

// The prefix sum of the partial results. Returns their number.
__device__ int32_t fill_partials(ScanStorage<Sum>& storage, const SplitShape& shape,
                                 int32_t num_rows, const int32_t* unit_start,
                                 int32_t* partial_start) {
  return scan_rows(
             storage, num_rows,
             [&](int32_t r) { return Sum{partials_of_row(shape, unit_start, num_rows, r)}; },
             [&](int32_t r, const Sum& before, const Sum& own) {
               write_start(partial_start, num_rows, r, before.value, own.value);
             })
      .value;
}

__global__ void __launch_bounds__(kThreads) build_kernel(StepInput input, StepArrays out) {
  __shared__ ScanStorage<RowSums> row_storage;
  __shared__ ScanStorage<Sum> sum_storage;
  const Limits& limits = out.limits;
  const int32_t max_rows = limits.max_rows;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);

  const auto sums = [&](int32_t r) { return sums_of(row_of(input, r), limits); };
  const RowSums total =
      scan_rows(row_storage, max_rows, sums, [](int32_t, const RowSums&, const RowSums&) {});
  scan_rows(row_storage, max_rows, sums, [&](int32_t r, const RowSums& before, const RowSums&) {
    write_row(out, r, row_of(input, r), before, total);
  });
  __syncthreads();

  for (int32_t t = thread; t < limits.max_tokens; t += kThreads) write_token(input, out, t, total);
  for (int32_t t = thread; t < limits.max_tokens; t += kThreads) write_logit(out, t, total);
  const int32_t max_chunks = max_chunks_of(limits.max_tokens, max_rows);
  for (int32_t c = thread; c < max_chunks; c += kThreads) write_chunk(out, c, total);
  // A warp a row.
  for (int32_t r = thread / kWarpSize; r < max_rows; r += kWarps) {
    const int32_t lane = thread % kWarpSize;
    const int32_t filled = write_page_row(input, out, r, lane, kWarpSize);
    __syncwarp();
    if (lane == 0) out.pages_filled[r] = filled;
  }
  const int32_t num_partials = fill_partials(sum_storage, split_shape(limits), max_rows,
                                             out.split_unit_start, out.split_partial_start);
  if (thread == 0) write_counts(input, out, total, num_partials);
}

__global__ void __launch_bounds__(kThreads)
    build_split_kernel(StepView step, SplitShape shape, int32_t* unit_start,
                       int32_t* partial_start) {
  __shared__ ScanStorage<Sum> storage;
  const int32_t num_rows = step.limits.max_rows;
  scan_rows(
      storage, num_rows, [&](int32_t r) { return Sum{units_of_row(shape, step, r)}; },
      [&](int32_t r, const Sum& before, const Sum& own) {
        write_start(unit_start, num_rows, r, before.value, own.value);
      });
  __syncthreads();
  fill_partials(storage, shape, num_rows, unit_start, partial_start);
}

Status launch_status(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return internal_error(std::string(kernel) + ": launch failed: " + cudaGetErrorString(error));
}

}  // namespace

Status launch_build(cudaStream_t stream, const StepInput& input, const StepArrays& arrays) {
  build_kernel<<<1, kThreads, 0, stream>>>(input, arrays);
  return launch_status("metadata build");
}

Status launch_build_split(cudaStream_t stream, const StepView& step, const SplitShape& shape,
                          int32_t* unit_start, int32_t* partial_start) {
  build_split_kernel<<<1, kThreads, 0, stream>>>(step, shape, unit_start, partial_start);
  return launch_status("metadata build_split");
}

}  // namespace headrace::metadata
