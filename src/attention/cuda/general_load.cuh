// SPDX-License-Identifier: Apache-2.0
// How queries, keys and values reach the shared memory of the general kernel. Knows pages and
// strides, nothing of what is computed.
#pragma once

#include <cstdint>

#include "attention/cuda/general_params.cuh"
#include "attention/cuda/general_traits.cuh"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

// Place of element `column` of row `row` of a matrix in chunks (general_traits.cuh).
template <int kHeadDim>
__device__ __forceinline__ int32_t chunked(int32_t row, int32_t column) {
  return row * kHeadDim + (((column / 8) ^ (row % 8)) * 8 | column % 8);
}

template <typename To, typename From>
__device__ __forceinline__ To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else {
    return static_cast<To>(static_cast<float>(x));
  }
}

// All threads of the block; queries past the item's are zero.
template <typename Traits>
__device__ __forceinline__ void load_queries(const GeneralParams& params, const GeneralItem& item,
                                             GeneralShared<Traits>& shared) {
  using Io = typename Traits::Io;
  using Mma = typename Traits::Mma;
  constexpr int kChunks = Traits::kHeadDim / 8;
  const AttentionParams& attention = params.attention;
  const bool negate = attention.scale < 0.0f;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < Traits::kQueries * kChunks;
       i += Traits::kThreads) {
    const int32_t query = i / kChunks;
    const int32_t column = i % kChunks * 8;
    alignas(16) Io from[8];
    *reinterpret_cast<uint4*>(from) = uint4{};
    if (query < item.num_queries) {
      const int32_t token = params.by_group.quotient(item.first_query + query);
      const int32_t head =
          item.kv_head * params.group + item.first_query + query - token * params.group;
      const Io* source = static_cast<const Io*>(attention.q) +
                         (item.query_start + token) * attention.q_stride +
                         int64_t{head} * Traits::kHeadDim + column;
      if (params.vector_q) {
        *reinterpret_cast<uint4*>(from) = *reinterpret_cast<const uint4*>(source);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) from[e] = source[e];
      }
    }
    alignas(16) Mma to[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) to[e] = convert<Mma>(negate ? -from[e] : from[e]);
    *reinterpret_cast<uint4*>(shared.queries + chunked<Traits::kHeadDim>(query, column)) =
        *reinterpret_cast<const uint4*>(to);
  }
}

// Brings tiles of one item. Keys before the first one that the item needs, and past the end of the
// sequence, become zeros, whatever the cache holds there.
template <typename Traits>
class GeneralLoader {
 public:
  using Shared = GeneralShared<Traits>;
  using Kv = typename Traits::Kv;
  using Mma = typename Traits::Mma;
  __device__ __forceinline__ GeneralLoader(const GeneralParams& params, Shared& shared,
                                           const GeneralItem& item, int32_t first_key)
      : params_(params), shared_(shared), item_(item), first_key_(first_key) {}

  // The page of the thread's key of a tile, −1 where the item needs none; to be asked early and
  // handed on when it has arrived.
  __device__ __forceinline__ int32_t look_up(int32_t tile) const {
    const int32_t position = tile * Traits::kKeys + thread();
    if (thread() >= Traits::kKeys || position < first_key_ || position >= item_.seq_len) return -1;
    const metadata::StepView& step = params_.attention.step;
    return step.page_table[int64_t{item_.row} * step.limits.max_pages_per_row +
                           params_.by_page_size.quotient(position)];
  }
  __device__ __forceinline__ void hand_on(int32_t tile, int32_t page) {
    if (thread() >= Traits::kKeys) return;
    const KvCache& cache = params_.attention.cache;
    const int32_t in_page = params_.by_page_size.remainder(tile * Traits::kKeys + thread());
    shared_.lines[tile & 1][thread()] =
        page < 0 ? nullptr
                 : static_cast<const Kv*>(cache.data) + page * cache.page_stride +
                       in_page * cache.token_stride + item_.kv_head * cache.head_stride;
  }

  // Starts to bring a tile: into the stage, or fp8 to where it is widened from.
  __device__ __forceinline__ void start(int32_t tile, int stage) {
    if constexpr (Traits::kIsFp8) {
      if (params_.async) copy_raw(tile);
    } else if (params_.async) {
      copy(tile, stage);
    } else {
      copy_elements(tile, shared_.keys[stage], 0);
      copy_elements(tile, shared_.values[stage], params_.attention.cache.value_offset);
    }
  }
  // fp8 alone: after the copies of this thread have landed, and when nobody reads the tiles.
  __device__ __forceinline__ void finish(int32_t tile) {
    if (params_.async) {
      widen(shared_.raw_keys, shared_.keys[0]);
      widen(shared_.raw_values, shared_.values[0]);
    } else {
      copy_elements(tile, shared_.keys[0], 0);
      copy_elements(tile, shared_.values[0], params_.attention.cache.value_offset);
    }
  }

 private:
  __device__ static int32_t thread() { return static_cast<int32_t>(threadIdx.x); }

  // Both halves of a line of the cache, 16 bytes a thread.
  __device__ __forceinline__ void copy_line(const Kv* line, int32_t column, void* key,
                                            void* value) const {
    const bool valid = line != nullptr;
    const Kv* from = valid ? line + column : static_cast<const Kv*>(params_.attention.cache.data);
    ptx::async_copy_16(key, from, valid);
    ptx::async_copy_16(value, from + (valid ? params_.attention.cache.value_offset : 0), valid);
  }
  __device__ __forceinline__ void copy(int32_t tile, int stage) const {
    constexpr int kChunks = Traits::kHeadDim / 8;
    constexpr int kLines = Traits::kThreads / kChunks;  // of one pass
    const int32_t column = thread() % kChunks * 8;
#pragma unroll
    for (int pass = 0; pass < Traits::kKeys / kLines; ++pass) {
      const int32_t key = thread() / kChunks + pass * kLines;
      const int32_t to = chunked<Traits::kHeadDim>(key, column);
      copy_line(shared_.lines[tile & 1][key], column, shared_.keys[stage] + to,
                shared_.values[stage] + to);
    }
  }
  // fp8: a thread widens later what it has copied itself.
  static constexpr int kRawChunks = Traits::kHeadDim / 16;
  static constexpr int kRawLines = Traits::kThreads / kRawChunks;
  static constexpr int kRawPasses = Traits::kKeys / kRawLines;

  __device__ __forceinline__ void copy_raw(int32_t tile) const {
    const int32_t column = thread() % kRawChunks * 16;
#pragma unroll
    for (int pass = 0; pass < kRawPasses; ++pass) {
      const int32_t key = thread() / kRawChunks + pass * kRawLines;
      const int32_t to = key * Traits::kHeadDim + column;
      copy_line(shared_.lines[tile & 1][key], column, shared_.raw_keys + to,
                shared_.raw_values + to);
    }
  }
  __device__ __forceinline__ static void widen(const uint8_t* from, Mma* to) {
    const int32_t column = thread() % kRawChunks * 16;
#pragma unroll
    for (int pass = 0; pass < kRawPasses; ++pass) {
      const int32_t key = thread() / kRawChunks + pass * kRawLines;
      const uint4 raw = *reinterpret_cast<const uint4*>(from + key * Traits::kHeadDim + column);
      const auto low = [](uint32_t four) { return ptx::widen_e4m3x2(four & 0xFFFF); };
      const auto high = [](uint32_t four) { return ptx::widen_e4m3x2(four >> 16); };
      *reinterpret_cast<uint4*>(to + chunked<Traits::kHeadDim>(key, column)) =
          uint4{low(raw.x), high(raw.x), low(raw.y), high(raw.y)};
      *reinterpret_cast<uint4*>(to + chunked<Traits::kHeadDim>(key, column + 8)) =
          uint4{low(raw.z), high(raw.z), low(raw.w), high(raw.w)};
    }
  }
  __device__ __forceinline__ void copy_elements(int32_t tile, Mma* to, int64_t shift) const {
    for (int32_t i = thread(); i < Traits::kTileElements; i += Traits::kThreads) {
      const int32_t key = i / Traits::kHeadDim;
      const int32_t column = i % Traits::kHeadDim;
      const Kv* line = shared_.lines[tile & 1][key];
      Mma element = convert<Mma>(0.0f);
      if (line != nullptr) element = convert<Mma>(line[shift + column]);
      to[chunked<Traits::kHeadDim>(key, column)] = element;
    }
  }

  const GeneralParams& params_;
  Shared& shared_;
  const GeneralItem& item_;
  const int32_t first_key_;
};

}  // namespace headrace::attention
