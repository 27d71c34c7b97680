// SPDX-License-Identifier: Apache-2.0
// Drives the index functions of derive.h on the device. Block 0 derives everything but the page
// table: threads stride over rows, tokens and chunks, sums over rows come from a block-wide scan.
// The other blocks copy the page table, a row each, and need nothing of block 0. A build is a chain
// of latencies, not of work: what does not wait for one another goes to teams of threads that run
// side by side. No rule lives here; build.cc is the same driver as plain loops.
#include "metadata/cuda/build_kernel.h"
#include "metadata/derive.h"
#include "tensor/cuda/cuda_error.h"

namespace headrace::metadata {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
// Arenas of so many rows have what phase 3 searches in shared memory.
constexpr int32_t kCachedRows = 1024;
constexpr int32_t kCachedWorkers = 512;
// One on each of an H200's 132 multiprocessors but that of block 0.
constexpr int32_t kMaxCopyBlocks = 131;

// Warps of the block that have a barrier of their own (0 is __syncthreads'; all threads).
template <int kFirstThread, int kNumThreads, int kBarrier>
struct Team {
  static constexpr int kSize = kNumThreads;
  static constexpr int kWarps = kNumThreads / kWarpSize;
  static_assert(kFirstThread % kWarpSize == 0 && kNumThreads % kWarpSize == 0 &&
                kWarps <= kWarpSize);
  __device__ static bool has_me() { return rank() >= 0 && rank() < kNumThreads; }
  __device__ static int32_t rank() { return static_cast<int32_t>(threadIdx.x) - kFirstThread; }
  __device__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kNumThreads) : "memory");
  }
};
using Everyone = Team<0, kThreads, 0>;
using RowTeam = Team<0, 256, 1>;
using TokenTeam = Team<256, 256, 2>;
using ListTeam = Team<512, 256, 3>;
using SplitTeam = Team<768, 256, 4>;

// ListTeam says to SplitTeam that the workers' entries are there.
struct WorkersDone {
  __device__ static void arrive() {
    asm volatile("bar.arrive 5, %0;" ::"n"(ListTeam::kSize + SplitTeam::kSize) : "memory");
  }
  __device__ static void wait() {
    asm volatile("bar.sync 5, %0;" ::"n"(ListTeam::kSize + SplitTeam::kSize) : "memory");
  }
};

// A single sum with the shape of RowSums.
struct Sum {
  int32_t value = 0;
  __device__ void add(const Sum& other) { value += other.value; }
};

// Structs of sums are scanned word by word.
template <typename T>
constexpr int kWords = sizeof(T) / sizeof(int32_t);
template <typename T>
__device__ const int32_t* words(const T& sums) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  return reinterpret_cast<const int32_t*>(&sums);
}
template <typename T>
__device__ int32_t* words(T& sums) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  return reinterpret_cast<int32_t*>(&sums);
}

// Inclusive over the lanes of a warp.
__device__ int32_t warp_scan(int32_t value) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int32_t below = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

template <typename T>
struct ScanStorage {
  int32_t warps[kWords<T>][kWarpSize];  // sums of a warp, then of all warps before it
  int32_t total[kWords<T>];
};

// What lies before this thread's `own`, and the team's total into *total. The whole team calls it;
// only the first num_used of its threads bring anything but zeros.
template <typename Team, typename T>
__device__ T team_scan(ScanStorage<T>& storage, const T& own, int32_t num_used, T* total) {
  const int lane = Team::rank() % kWarpSize;
  const int warp = Team::rank() / kWarpSize;
  T before;
  if (warp * kWarpSize < num_used) {
#pragma unroll
    for (int i = 0; i < kWords<T>; ++i) {
      const int32_t inclusive = warp_scan(words(own)[i]);
      words(before)[i] = inclusive - words(own)[i];
      if (lane == kWarpSize - 1) storage.warps[i][warp] = inclusive;
    }
  } else if (lane < kWords<T>) {
    storage.warps[lane][warp] = 0;
  }
  Team::sync();
  for (int i = warp; i < kWords<T>; i += Team::kWarps) {  // a warp a word
    const int32_t of_warp = lane < Team::kWarps ? storage.warps[i][lane] : 0;
    const int32_t inclusive = warp_scan(of_warp);
    storage.warps[i][lane] = inclusive - of_warp;
    if (lane == kWarpSize - 1) storage.total[i] = inclusive;
  }
  Team::sync();
#pragma unroll
  for (int i = 0; i < kWords<T>; ++i) {
    words(before)[i] += storage.warps[i][warp];
    words(*total)[i] = storage.total[i];
  }
  return before;
}

// Calls write(r, before, own, through) for every row with own = sums(r), what the rows before it
// sum to and what all rows up to the end of its group of Team::kSize do. Returns the total. sums(r)
// and write(r, …) of a row are called by one thread, in this order.
template <typename Team, typename T, typename Sums, typename Write>
__device__ T scan_rows(ScanStorage<T>& storage, int32_t num_rows, Sums sums, Write write) {
  T carried;
  for (int32_t base = 0; base < num_rows; base += Team::kSize) {
    const int32_t r = base + Team::rank();
    if (base > 0) Team::sync();  // the storage is free again
    T own;
    if (r < num_rows) own = sums(r);
    T through;
    T before = team_scan<Team>(storage, own, num_rows - base, &through);
    before.add(carried);
    through.add(carried);
    if (r < num_rows) write(r, before, own, through);
    carried = through;
  }
  return carried;
}

// The prefix sum of the partial results, to where the team reads it and to where it stays. Returns
// their number.
template <typename Team>
__device__ int32_t fill_partials(ScanStorage<Sum>& storage, const SplitView& split, int32_t* read,
                                 int32_t* kept) {
  const int32_t num_rows = split.num_rows;
  return scan_rows<Team>(
             storage, num_rows,
             [&](int32_t r) {
               return Sum{partials_of_row(split.shape, split.unit_start, num_rows, r)};
             },
             [&](int32_t r, const Sum& before, const Sum& own, const Sum&) {
               write_start(read, num_rows, r, before.value, own.value);
               if (kept != read) write_start(kept, num_rows, r, before.value, own.value);
             })
      .value;
}

__device__ void store_worker(SplitWorker* to, const SplitWorker& worker) {
  static_assert(sizeof(SplitWorker) == 4 * sizeof(int4));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    reinterpret_cast<int4*>(to)[i] = reinterpret_cast<const int4*>(&worker)[i];
  }
}

// row_of(), loaded in two pieces: an arena's rows are aligned.
__device__ Row load_row(const StepInput& input, int32_t r) {
  static_assert(sizeof(Row) == 2 * sizeof(int4));
  union {
    int4 halves[2];
    Row row;
  } loaded{};
  const auto* from = reinterpret_cast<const int4*>(input.rows + r);
  loaded.halves[0] = from[0];
  loaded.halves[1] = from[1];
  return effective_row(&loaded.row, 0, r < *input.num_rows ? 1 : 0);
}

// What phase 3 reads of phase 2, and what phase 4 reads of the input.
struct RowCache {
  int32_t num_rows;
  int32_t padded_rows;
  int32_t num_checkpoints;
  int32_t query_len[kCachedRows];
  int32_t context_len[kCachedRows];
  int32_t seq_len[kCachedRows];
  int32_t group_start[kCachedRows];
  int32_t query_start[kCachedRows + 1];
  int32_t chunk_start[kCachedRows + 1];
  int32_t logit_start[kCachedRows + 1];
  int32_t unit_start[kCachedRows + 1];
  int32_t partial_start[kCachedRows + 1];
  // Of the first kCachedWorkers workers: first unit, row, and `partial` as split_worker() has it.
  int32_t worker_unit[kCachedWorkers + 1];
  int32_t worker_row[kCachedWorkers];
  int32_t worker_partial[kCachedWorkers];
};

// `out` with those arrays in the cache.
__device__ StepArrays with_cache(const StepArrays& out, RowCache& cache) {
  StepArrays cached = out;
  cached.query_len = cache.query_len;
  cached.context_len = cache.context_len;
  cached.seq_len = cache.seq_len;
  cached.group_start = cache.group_start;
  cached.query_start_i32 = cache.query_start;
  cached.chunk_start = cache.chunk_start;
  cached.logit_start = cache.logit_start;
  cached.split_unit_start = cache.unit_start;
  cached.split_partial_start = cache.partial_start;
  return cached;
}

template <typename Team>
__device__ void write_back(const StepArrays& cached, const StepArrays& out) {
  const int32_t max_rows = out.limits.max_rows;
  for (int32_t r = Team::rank(); r <= max_rows; r += Team::kSize) {
    if (r < max_rows) {
      out.query_len[r] = cached.query_len[r];
      out.context_len[r] = cached.context_len[r];
      out.seq_len[r] = cached.seq_len[r];
      out.group_start[r] = cached.group_start[r];
    }
    out.query_start_i32[r] = cached.query_start_i32[r];
    out.chunk_start[r] = cached.chunk_start[r];
    out.logit_start[r] = cached.logit_start[r];
    out.split_unit_start[r] = cached.split_unit_start[r];
  }
}

// The step's own split as the arrays have it.
__device__ SplitView split_of(const StepArrays& arrays) {
  return {.shape = split_shape(arrays.limits),
          .num_rows = arrays.limits.max_rows,
          .workers = nullptr,
          .unit_start = arrays.split_unit_start,
          .partial_start = arrays.split_partial_start,
          .seq_len = arrays.seq_len,
          .context_len = arrays.context_len,
          .query_len = arrays.query_len,
          .query_start = arrays.query_start_i32};
}

__device__ void derive(const StepInput& input, const StepArrays& out) {
  __shared__ ScanStorage<RowSums> row_storage;
  __shared__ ScanStorage<Sum> sum_storage;
  __shared__ RowCache cache;
  const Limits& limits = out.limits;
  const int32_t max_rows = limits.max_rows;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  const bool use_cache = max_rows <= kCachedRows;
  const StepArrays arrays = use_cache ? with_cache(out, cache) : out;

  // Loaded early; the barriers of the scan lie before their use.
  StepInput counts_input = input;
  counts_input.num_rows = &cache.num_rows;
  counts_input.padded_rows = &cache.padded_rows;
  counts_input.num_checkpoints = &cache.num_checkpoints;
  if (thread == kThreads - 1) {
    cache.num_rows = *input.num_rows;
    cache.padded_rows = *input.padded_rows;
    cache.num_checkpoints = *input.num_checkpoints;
  }

  Row row;
  const auto sums = [&](int32_t r) {
    row = load_row(input, r);
    return sums_of(row, limits);
  };
  // With a thread for each row one scan gives the total too.
  RowSums scanned;
  if (max_rows > kThreads) {
    scanned = scan_rows<Everyone>(row_storage, max_rows, sums,
                                  [](int32_t, const RowSums&, const RowSums&, const RowSums&) {});
    __syncthreads();
  }
  const RowSums total = scan_rows<Everyone>(
      row_storage, max_rows, sums,
      [&](int32_t r, const RowSums& before, const RowSums& own, const RowSums& through) {
        RowSums all = through;  // a copy: a reference to either keeps both out of registers
        if (max_rows > kThreads) all = scanned;
        write_row(arrays, r, row, own, before, all);
      });
  __syncthreads();

  const SplitView split = split_of(arrays);
  const int32_t num_workers = limits.num_workers;
  const bool workers_cached = num_workers <= kCachedWorkers;
  if (RowTeam::has_me()) {
    if (use_cache) write_back<RowTeam>(arrays, out);
  } else if (TokenTeam::has_me()) {
    for (int32_t t = TokenTeam::rank(); t < limits.max_tokens; t += TokenTeam::kSize) {
      write_token(input, arrays, t, total);
    }
  } else if (ListTeam::has_me()) {
    const int32_t active = active_workers(split.shape, total.units);
    for (int32_t w = ListTeam::rank(); workers_cached && w <= num_workers; w += ListTeam::kSize) {
      cache.worker_unit[w] = worker_begin(total.units, active, w);
    }
    ListTeam::sync();
    for (int32_t w = ListTeam::rank(); workers_cached && w < num_workers; w += ListTeam::kSize) {
      const SplitWorker worker =
          split_worker(split, w, cache.worker_unit[w], cache.worker_unit[w + 1]);
      cache.worker_row[w] = worker.has_work() ? worker.row : -1;
      cache.worker_partial[w] = worker.partial;
      store_worker(out.split_workers + w, worker);
    }
    WorkersDone::arrive();
    for (int32_t i = ListTeam::rank(); i < limits.max_tokens; i += ListTeam::kSize) {
      write_logit(arrays, i, total);
    }
    const int32_t max_chunks = max_chunks_of(limits.max_tokens, max_rows);
    for (int32_t c = ListTeam::rank(); c < max_chunks; c += ListTeam::kSize) {
      write_chunk(arrays, c, total);
    }
  } else {
    const int32_t num_partials = fill_partials<SplitTeam>(
        sum_storage, split, arrays.split_partial_start, out.split_partial_start);
    if (SplitTeam::rank() == SplitTeam::kSize - 1) {
      write_counts(counts_input, out, total, num_partials);
    }
    WorkersDone::wait();  // and all of the team have written split_partial_start
    for (int32_t w = SplitTeam::rank(); w < num_workers; w += SplitTeam::kSize) {
      if (!workers_cached) {
        SplitWorker worker = split_worker(split, w);
        place_partials(worker, arrays.split_partial_start);
        store_worker(out.split_workers + w, worker);
      } else if (cache.worker_row[w] >= 0) {
        const int32_t* of_row = arrays.split_partial_start + cache.worker_row[w];
        out.split_workers[w].partial = of_row[0] + cache.worker_partial[w];
        out.split_workers[w].row_partial = of_row[0];
        out.split_workers[w].row_partials = of_row[1] - of_row[0];
      }
    }
  }
}

__device__ void copy_page_table(const StepInput& input, const StepArrays& out) {
  const int32_t num_blocks = static_cast<int32_t>(gridDim.x) - 1;
  for (int32_t r = static_cast<int32_t>(blockIdx.x) - 1; r < out.limits.max_rows; r += num_blocks) {
    const int32_t used = sums_of(load_row(input, r), out.limits).pages;
    write_page_row(input, out, r, used, static_cast<int32_t>(threadIdx.x), kThreads);
    __syncthreads();  // all threads have read pages_filled[r]
    if (threadIdx.x == 0) out.pages_filled[r] = used;
  }
}

__global__ void __launch_bounds__(kThreads) build_kernel(StepInput input, StepArrays out) {
  if (blockIdx.x == 0) {
    derive(input, out);
  } else {
    copy_page_table(input, out);
  }
}

__global__ void __launch_bounds__(kThreads)
    build_split_kernel(StepView step, SplitShape shape, SplitArrays out) {
  __shared__ ScanStorage<Sum> storage;
  const int32_t num_rows = step.limits.max_rows;
  scan_rows<Everyone>(
      storage, num_rows, [&](int32_t r) { return Sum{units_of_row(shape, step, r)}; },
      [&](int32_t r, const Sum& before, const Sum& own, const Sum&) {
        write_start(out.unit_start, num_rows, r, before.value, own.value);
      });
  __syncthreads();
  const SplitView split = split_view(step, shape, out);
  fill_partials<Everyone>(storage, split, out.partial_start, out.partial_start);
  __syncthreads();
  for (auto w = static_cast<int32_t>(threadIdx.x); w < shape.num_workers; w += kThreads) {
    SplitWorker worker = split_worker(split, w);
    place_partials(worker, out.partial_start);
    store_worker(out.workers + w, worker);
  }
}

Status launch_status(const char* kernel) { return cuda_status(cudaGetLastError(), kernel); }

}  // namespace

Status launch_build(cudaStream_t stream, const StepInput& input, const StepArrays& arrays) {
  const int32_t num_blocks = 1 + min_i32(arrays.limits.max_rows, kMaxCopyBlocks);
  build_kernel<<<num_blocks, kThreads, 0, stream>>>(input, arrays);
  return launch_status("launch of the metadata build");
}

Status launch_build_split(cudaStream_t stream, const StepView& step, const SplitShape& shape,
                          const SplitArrays& out) {
  build_split_kernel<<<1, kThreads, 0, stream>>>(step, shape, out);
  return launch_status("launch of the metadata build_split");
}

}  // namespace headrace::metadata
