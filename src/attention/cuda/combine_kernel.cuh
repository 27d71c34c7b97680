// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of the rows that several workers shared:
//   o = Σ_i o_i · w_i / Σ_i w_i,  w_i = 2^(lse_i − max lse) [the sink's weight added to the sum],
// always in the order of their keys. Grid [cuts, shares]: in a balanced split only a row that lies
// across the edge between two workers has several partial results, so there is a block for each
// edge, and a row of many pieces, which has many edges, gets as many blocks. With the fixed cut
// every row may have several: a block a row. One warp merges a query that has few partial results;
// where there are many, the block's warps divide them and the dims are cut in slices of 64.
// Besides, zeros go to the padding tokens of the step.
#pragma once

#include "attention/cuda/decode_consumer.cuh"
#include "attention/cuda/decode_params.h"
#include "metadata/cuda/split_worker.cuh"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/race_delay.cuh"

namespace headrace::attention {

inline constexpr int kCombineThreads = 128;
inline constexpr int kCombineWarps = kCombineThreads / 32;
inline constexpr int kWarpMergePartials = 16;  // more are a block's work

// A row that is to be merged, and which part of the work is this block's.
struct CombineShare {
  int32_t row = -1;  // −1: nothing to do
  int32_t first_partial = 0;
  int32_t num_partials = 0;
  int32_t query_len = 0;
  int32_t query_start = 0;  // first token of the row in the step
  int32_t share = 0;
  int32_t num_shares = 1;
};

__device__ inline CombineShare combine_share(const metadata::SplitView& split, int32_t cut) {
  if (split.shape.fixed) {
    const int32_t first = split.partial_start[cut];
    return {.row = cut,
            .first_partial = first,
            .num_partials = split.partial_start[cut + 1] - first,
            .query_len = split.query_len[cut],
            .query_start = split.query_start[cut]};
  }
  // The edge before a worker. Nothing is cut where its range begins with a row.
  if (cut + 1 >= split.shape.num_workers) return {};
  const metadata::SplitWorker worker = metadata::load_worker(split.workers + cut + 1);
  if (!worker.has_work() || worker.unit_begin == worker.row_begin) return {};
  return {.row = worker.row,
          .first_partial = worker.row_partial,
          .num_partials = worker.row_partials,
          .query_len = worker.query_len,
          .query_start = worker.query_start,
          .share = worker.partial - worker.row_partial - 1,
          .num_shares = worker.row_partials - 1};
}

// One query's partial results: entry i at lse[i · stride] and out[i · stride · D].
struct PartialResults {
  const float* lse;
  const float* out;
  int64_t stride;
  int32_t count;
};

// One query to be merged, and where its result goes.
struct MergeItem {
  PartialResults partials;
  int64_t token;
  int64_t head;
};

// kWords consecutive floats.
template <int kWords>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; i += (kWords < 4 ? 2 : 4)) {
    if constexpr (kWords < 4) {
      const float2 two = *reinterpret_cast<const float2*>(from + i);
      to[i] = two.x;
      to[i + 1] = two.y;
    } else {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
  }
}

template <typename Io, int kWords>
__device__ __forceinline__ void store_floats(Io* to, const float (&values)[kWords], float factor) {
#pragma unroll
  for (int i = 0; i < kWords; i += 2) {
    reinterpret_cast<uint32_t*>(to)[i / 2] =
        ptx::pack<Io>(values[i] * factor, values[i + 1] * factor);
  }
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

// Max and sum of the weights of one query, the sink among them.
struct WeightSum {
  float max;
  float sum;
  // 2^(lse − max); −inf − (−inf) must not come up.
  __device__ float weight(float lse) const {
    return lse == -INFINITY ? 0.0f : ptx::exp2_approx(lse - max);
  }
  __device__ float lse() const { return sum == 0.0f ? -INFINITY : (max + __log2f(sum)) * kLn2; }
  // Not "> 0": a sum that is NaN must show.
  __device__ float inverse() const { return sum == 0.0f ? 0.0f : __fdividef(1.0f, sum); }
};

__device__ __forceinline__ float sink_of(const DecodeParams& params, int64_t head) {
  return params.sinks != nullptr ? params.sinks[head] * kLog2E : -INFINITY;
}

__device__ __forceinline__ void write_lse(const DecodeParams& params, int64_t token, int64_t head,
                                          const WeightSum& weights) {
  if (params.lse != nullptr) {
    params.lse[token * params.num_q_heads + head] = weights.lse();
  }
}

// A warp merges at most kWarpMergePartials partial results in kDims dims of one query, all of them
// in flight at once where kDims is small enough.
template <typename Io, int kHeadDim, int kDims>
__device__ __forceinline__ void merge_by_warp(const DecodeParams& params, const MergeItem& item,
                                              int32_t slice) {
  constexpr int kWords = kDims / 32;
  constexpr int kAtOnce = kWords <= 4 ? kWarpMergePartials : kWarpMergePartials / 2;
  const auto& [partials, token, head] = item;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const float lse = lane < partials.count ? partials.lse[lane * partials.stride] : -INFINITY;
  const float sink = sink_of(params, head);
  const int32_t dim = slice * kDims + lane * kWords;
  const float* from = partials.out + dim;
  const int64_t stride = partials.stride * kHeadDim;
  float out[kWords] = {};
  WeightSum weights{};
  float weight = 0.0f;
#pragma unroll 1
  for (int32_t base = 0; base < partials.count; base += kAtOnce) {
    float values[kAtOnce][kWords] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (base + i < partials.count) load_floats(from, values[i]);
      from += stride;
    }
    if (base == 0) {  // while the first vectors are on their way
      weights.max = warp_max(fmaxf(lse, sink));
      weight = weights.weight(lse);
      weights.sum = warp_sum(weight) + weights.weight(sink);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float w = __shfl_sync(0xffffffffu, weight, base + i);
#pragma unroll
      for (int word = 0; word < kWords; ++word) out[word] += w * values[i][word];
    }
  }
  store_floats(static_cast<Io*>(params.out) + token * params.out_stride + head * kHeadDim + dim,
               out, weights.inverse());
  if (dim == 0) write_lse(params, token, head, weights);
}

inline constexpr int kSliceDims = 64;  // two a lane

struct CombineMemory {
  float reduced[2][kCombineWarps];
  float2 out[kCombineWarps][32];
};

// The block merges any number of partial results in 64 dims of one query: warp w takes every
// kCombineWarps-th from w on.
template <typename Io, int kHeadDim>
__device__ __forceinline__ void merge_by_block(const DecodeParams& params, const MergeItem& item,
                                               int32_t slice, CombineMemory& memory) {
  const auto& [partials, token, head] = item;
  constexpr int kAtOnce = 8;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const int32_t dim = slice * kSliceDims + lane * 2;
  const int64_t next = kCombineWarps * partials.stride;
  const float* lses = partials.lse + warp * partials.stride;
  const float* outs = partials.out + warp * partials.stride * kHeadDim + dim;
  float lse[kAtOnce];
  float2 values[kAtOnce];
  const auto load = [&](int32_t base) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool valid = base + i * kCombineWarps < partials.count;
      lse[i] = valid ? *lses : -INFINITY;
      values[i] = valid ? *reinterpret_cast<const float2*>(outs) : float2{0.0f, 0.0f};
      lses += next;
      outs += next * kHeadDim;
    }
  };
  load(warp);  // the first are on their way while the maximum is found
  float max = sink_of(params, head);
#pragma unroll 1
  for (auto i = static_cast<int32_t>(threadIdx.x); i < partials.count; i += kCombineThreads) {
    max = fmaxf(max, partials.lse[i * partials.stride]);
  }
  max = warp_max(max);
  if (lane == 0) memory.reduced[0][warp] = max;
  __syncthreads();
  WeightSum weights{memory.reduced[0][0], 0.0f};
#pragma unroll
  for (int w = 1; w < kCombineWarps; ++w) weights.max = fmaxf(weights.max, memory.reduced[0][w]);

  float2 out{0.0f, 0.0f};
#pragma unroll 1
  for (int32_t base = warp;;) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float w = weights.weight(lse[i]);
      weights.sum += w;
      out.x += w * values[i].x;
      out.y += w * values[i].y;
    }
    base += kAtOnce * kCombineWarps;
    if (base >= partials.count) break;
    load(base);
  }
  memory.out[warp][lane] = out;
  if (lane == 0) memory.reduced[1][warp] = weights.sum;
  __syncthreads();
  if (warp == 0) {
    weights.sum = weights.weight(sink_of(params, head));
    float sums[2] = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < kCombineWarps; ++w) {
      weights.sum += memory.reduced[1][w];
      sums[0] += memory.out[w][lane].x;
      sums[1] += memory.out[w][lane].y;
    }
    store_floats(static_cast<Io*>(params.out) + token * params.out_stride + head * kHeadDim + dim,
                 sums, weights.inverse());
    if (dim == 0) write_lse(params, token, head, weights);
  }
  __syncthreads();
}

template <typename Io, int kHeadDim>
__device__ void clear_padding_tokens(const DecodeParams& params) {
  const auto num_blocks = static_cast<int32_t>(gridDim.x * gridDim.y);
  const auto block = static_cast<int32_t>(blockIdx.y * gridDim.x + blockIdx.x);
  const int32_t num_heads = params.num_q_heads;
#pragma unroll 1
  for (int64_t token = params.counts->num_tokens + block; token < params.max_tokens;
       token += num_blocks) {
    auto* out = reinterpret_cast<uint4*>(static_cast<Io*>(params.out) + token * params.out_stride);
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i < num_heads * kHeadDim / 8;
         i += kCombineThreads) {
      out[i] = uint4{0, 0, 0, 0};
    }
    if (params.lse == nullptr) continue;
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i < num_heads; i += kCombineThreads) {
      params.lse[token * num_heads + i] = -INFINITY;
    }
  }
}

// kRaceDelays: for tests, see tensor/cuda/race_delay.cuh.
template <typename Io, int kHeadDim, bool kRaceDelays = false>
__global__ void __launch_bounds__(kCombineThreads)
    combine_kernel(const __grid_constant__ DecodeParams params) {
  __shared__ CombineMemory memory;
  // Decode and this merge count as one kernel for who reads early (decode.h), and decode has passed
  // its wait: what follows may start its own early work now.
  ptx::launch_dependents();
  if (!params.early_pages) ptx::wait_for_dependencies();
  const CombineShare share = combine_share(params.split, static_cast<int32_t>(blockIdx.x));
  // How a query is cut: in one piece where a warp has all partial results in flight at once, else
  // in halves for a warp, else in slices for the block.
  constexpr int32_t kHalf = kHeadDim > 128 ? kHeadDim / 2 : kHeadDim;
  const bool by_block = share.num_partials > kWarpMergePartials;
  const bool in_halves = kHalf < kHeadDim && share.num_partials > kWarpMergePartials / 2;
  const int32_t slices = by_block ? kHeadDim / kSliceDims : in_halves ? kHeadDim / kHalf : 1;
  int32_t num_items = 0;
  if (share.num_partials > 1) {
    num_items = share.query_len * params.group * slices;
  }
  const auto kv_head = static_cast<int32_t>(blockIdx.y);
  const int64_t stride = static_cast<int64_t>(params.num_kv_heads) * params.max_queries;
  const int64_t first = share.first_partial * stride + kv_head * params.max_queries;
  const int32_t stride_items = by_block ? share.num_shares : share.num_shares * kCombineWarps;
  int32_t item =
      by_block ? share.share : share.share * kCombineWarps + static_cast<int32_t>(threadIdx.x / 32);

  if (params.early_pages) ptx::wait_for_dependencies();
#pragma unroll 1
  for (; item < num_items; item += stride_items) {
    const auto query =
        static_cast<int32_t>(static_cast<uint32_t>(item) / static_cast<uint32_t>(slices));
    const int32_t slice = item - query * slices;
    const int32_t token = params.by_group.quotient(query);
    const int64_t at = first + query;
    const MergeItem merged{
        {params.partial_lse + at, params.partial_out + at * kHeadDim, stride, share.num_partials},
        int64_t{share.query_start} + token,
        (kv_head - token) * params.group + query};
    race_delay<kRaceDelays>();
    if (by_block) {
      merge_by_block<Io, kHeadDim>(params, merged, slice, memory);
    } else if (in_halves) {
      merge_by_warp<Io, kHeadDim, kHalf>(params, merged, slice);
    } else {
      merge_by_warp<Io, kHeadDim, kHeadDim>(params, merged, 0);
    }
  }
  race_delay<kRaceDelays>();
  clear_padding_tokens<Io, kHeadDim>(params);
}

}  // namespace headrace::attention
