// SPDX-License-Identifier: Apache-2.0
// The half of the decode kernel that computes, for one piece of a row's keys and a block of
// queries,
//   o = Σ e^(s − m) v / l,  l = Σ e^(s − m),  s = scale · q kᵀ [soft-capped],  in base 2.
// Products are transposed, so that few queries waste no tensor core rows:
//   Sᵀ [keys, queries] = K Qᵀ      warp w has keys 16w … 16w + 15 of a tile
//   Oᵀ [D, queries]   += Vᵀ Pᵀ     warp w has dims w·D/4 … of all keys of the tile
// Between the two, maxima and weights P cross the warps through shared memory. In an accumulator a
// lane holds rows lane/4 and lane/4 + 8, columns (queries) 2·(lane % 4) and + 1.
#pragma once

#include "attention/cuda/decode_params.h"
#include "attention/cuda/decode_producer.cuh"
#include "attention/cuda/decode_traits.h"
#include "metadata/index.h"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/race_delay.cuh"

namespace headrace::attention {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

template <typename Traits>
struct ConsumerMemory {
  typename Traits::Mma* queries;  // [kQueries, kQueryStride]
  typename Traits::Mma* weights;  // [kQueries, kWeightStride] P of the tile
  float* maxima;                  // [kConsumerWarps, kQueries]
  float* sums;                    // [kConsumerWarps, kQueries]
};

// What a block of queries works on.
struct QueryBlock {
  PieceTask task;
  int32_t first_query;
  int32_t num_queries;  // of the row, in all blocks
};

__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }

template <typename Traits>
class Consumer {
  using Mma = typename Traits::Mma;
  static constexpr int kQueryTiles = Traits::kQueryTiles;
  static constexpr int kHeadDim = Traits::kHeadDim;
  static constexpr int kWarpDims = kHeadDim / Traits::kConsumerWarps;
  static constexpr int kDimTiles = kWarpDims / 16;
  static constexpr int kWarpBytes = Traits::kHeadBytes / Traits::kConsumerWarps;
  static constexpr int kTilePieces = kTileKeys / kPieceKeys;

 public:
  __device__ Consumer(const DecodeParams& params, const Ring<Traits>& ring,
                      const ConsumerMemory<Traits>& memory, int32_t kv_head)
      : params_(params),
        ring_(ring),
        memory_(memory),
        kv_head_(kv_head),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32) {
    float scale = params.scale;
    if constexpr (Traits::kIsFp8) {
      if (params.key_scale != nullptr) scale *= params.key_scale[kv_head * params.scale_stride];
      if (params.value_scale != nullptr) {
        value_scale_ = params.value_scale[kv_head * params.scale_stride];
      }
    }
    score_scale_ = params.soft_cap > 0.0f ? scale / params.soft_cap : scale * kLog2E;
  }

  __device__ void run(const PieceTask& task) {
    QueryBlock block{task, 0, task.query_len * params_.group};
    const TileRange range(task.key_begin, task.key_end);
    for (; block.first_query < block.num_queries; block.first_query += Traits::kQueries) {
      load_queries(block);
      start();
#pragma unroll 1
      for (int32_t base = 0; base < range.num_pieces; base += kTilePieces) {
        const int32_t num_pieces = metadata::min_i32(kTilePieces, range.num_pieces - base);
        const int32_t first_key = (range.first_piece + base) * kPieceKeys;
        float scores[kQueryTiles][4];
        multiply_keys(num_pieces, scores);
        weigh(block, first_key, num_pieces, scores);
        multiply_values(task, first_key, num_pieces);
      }
      finish(block);
    }
  }

 private:
  // Rows of q into shared memory; queries that the row has not are zeros.
  __device__ void load_queries(const QueryBlock& block) {
    constexpr uint32_t kChunks = kHeadDim / 8;
    const auto* q = static_cast<const typename Traits::Io*>(params_.q);
#pragma unroll
    for (uint32_t i = threadIdx.x; i < Traits::kQueries * kChunks; i += Traits::kConsumers) {
      const uint32_t nth = i / kChunks;
      const uint32_t chunk = i % kChunks;
      const int32_t query = block.first_query + static_cast<int32_t>(nth);
      uint4 words{0, 0, 0, 0};
      if (query < block.num_queries) {
        const Place place = place_of(block, query);
        words = *reinterpret_cast<const uint4*>(q + place.token * params_.q_stride +
                                                place.head * kHeadDim + chunk * 8);
      }
      Mma* to = memory_.queries + nth * Traits::kQueryStride;
      if constexpr (Traits::kIsFp8) {
        store_for_fp8(words, chunk, to);
      } else {
        *reinterpret_cast<uint4*>(to + chunk * 8) = words;
      }
    }
    ptx::named_barrier_sync<1, Traits::kConsumers>();
  }

  // Token of the step and query head of a query.
  struct Place {
    int64_t token;
    int32_t head;
  };
  __device__ Place place_of(const QueryBlock& block, int32_t query) const {
    const int32_t token = params_.by_group.quotient(query);
    return {block.task.query_start + token, (kv_head_ - token) * params_.group + query};
  }

  // As fp16, and in the order in which a lane finds the dims of fp8 keys: of 16 dims it has 4c …
  // 4c+3 where the matrix product takes 2c, 2c+1, 2c+8, 2c+9 (c = lane % 4).
  __device__ static void store_for_fp8(const uint4& words, uint32_t chunk, Mma* to) {
    const auto* pairs = reinterpret_cast<const uint32_t*>(&words);
    auto* block = reinterpret_cast<uint32_t*>(to + chunk / 2 * 16);
    const uint32_t first = chunk % 2 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t halves = pairs[i];
      if constexpr (!std::is_same_v<typename Traits::Io, __half>) {
        const auto* values = reinterpret_cast<const typename Traits::Io*>(&pairs[i]);
        halves = ptx::pack<__half>(to_float(values[0]), to_float(values[1]));
      }
      block[first + i / 2 + (i % 2) * 4] = halves;
    }
  }

  __device__ void start() {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        max_[n][e] = -INFINITY;
        sum_[n][e] = 0.0f;
      }
#pragma unroll
      for (int m = 0; m < kDimTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out_[m][n][i] = 0.0f;
      }
    }
  }

  // Sᵀ of the warp's 16 keys. Warps whose keys the tile does not have leave `scores` at zero.
  __device__ void multiply_keys(int32_t num_pieces, float (&scores)[kQueryTiles][4]) {
    // Independent sums, so that a product need not wait for the one before.
    constexpr int kChains = kQueryTiles >= 4 ? 1 : 4 / kQueryTiles;
    float sums[kChains][kQueryTiles][4] = {};
#pragma unroll
    for (uint32_t part = 0; part < Traits::kSlotsPerTile; ++part) {
      if (part * Traits::kSlotPieces >= static_cast<uint32_t>(num_pieces)) break;
      if (warp_ / Traits::kSlotPieces == part && warp_ < static_cast<uint32_t>(num_pieces)) {
        ptx::mbarrier_wait(&ring_.full[position_.slot], position_.phase);
        const uint32_t keys = ptx::shared_address(
            ring_.slot(position_.slot) + warp_ % Traits::kSlotPieces * Traits::kPieceBytes);
        const uint32_t queries =
            ptx::shared_address(memory_.queries + lane_ % 8 * Traits::kQueryStride + lane_ / 8 * 8);
#pragma unroll
        for (uint32_t d = 0; d < kHeadDim; d += 32) {
          uint32_t k[2][4];
          load_keys(keys, d, k);
#pragma unroll
          for (int n = 0; n < kQueryTiles; ++n) {
            uint32_t q[4];
            ptx::load_matrices(
                queries + (static_cast<uint32_t>(n) * 8 * Traits::kQueryStride + d) * 2, q);
            ptx::multiply_add<Mma>(sums[d / 16 % kChains][n], k[0], q[0], q[1]);
            ptx::multiply_add<Mma>(sums[(d / 16 + 1) % kChains][n], k[1], q[2], q[3]);
          }
        }
      }
      release();
    }
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = sums[0][n][i];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) scores[n][i] += sums[chain][n][i];
      }
    }
  }

  // 16 keys × dims d … d + 31 as two operands.
  __device__ void load_keys(uint32_t piece, uint32_t d, uint32_t (&k)[2][4]) const {
    if constexpr (Traits::kIsFp8) {
      uint32_t bytes[4];  // keys 0-7 and 8-15 of 16 dims, then of the next 16
      ptx::load_matrices(piece + chunk_offset<Traits>(lane_ % 16, d / 16 + lane_ / 16), bytes);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t four = bytes[2 * step + half];
          k[step][half] = ptx::widen_e4m3x2(static_cast<uint16_t>(four));
          k[step][half + 2] = ptx::widen_e4m3x2(static_cast<uint16_t>(four >> 16));
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        ptx::load_matrices(
            piece + chunk_offset<Traits>(lane_ % 16,
                                         d / 8 + static_cast<uint32_t>(step) * 2 + lane_ / 16),
            k[step]);
      }
    }
  }

  // Scores to weights: masks, online maximum over all warps, P into shared memory.
  __device__ void weigh(const QueryBlock& block, int32_t first_key, int32_t num_pieces,
                        float (&scores)[kQueryTiles][4]) {
    const float cap = params_.soft_cap;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] *= score_scale_;
        if (cap > 0.0f) scores[n][i] = cap * kLog2E * tanh_approx(scores[n][i]);
      }
    }
    const int32_t last_key = first_key + num_pieces * kPieceKeys - 1;
    const int32_t window = params_.window;
    const bool masked =
        last_key > block.task.context_len || num_pieces < kTilePieces ||
        (window > 0 && first_key < block.task.context_len + block.task.query_len - window) ||
        last_key >= block.task.key_end;
    if (masked) {
      mask(block, first_key + static_cast<int32_t>(warp_) * kPieceKeys, window, scores);
    }

    float* maxima = memory_.maxima + warp_ * Traits::kQueries;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float max = fmaxf(scores[n][e], scores[n][e + 2]);
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, distance));
        }
        if (lane_ < 4) maxima[n * 8 + 2 * lane_ + e] = max;
      }
    }
    ptx::named_barrier_sync<1, Traits::kConsumers>();

    bool grew = false;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      float2 max{max_[n][0], max_[n][1]};
#pragma unroll
      for (int w = 0; w < Traits::kConsumerWarps; ++w) {
        const float2 other = *reinterpret_cast<const float2*>(
            memory_.maxima + w * Traits::kQueries + n * 8 + lane_ % 4 * 2);
        max.x = fmaxf(max.x, other.x);
        max.y = fmaxf(max.y, other.y);
      }
      grew |= max.x > max_[n][0] || max.y > max_[n][1];
      uint32_t packed[2];
      scale_[n][0] = rescale(max_[n][0], max.x);
      scale_[n][1] = rescale(max_[n][1], max.y);
      max_[n][0] = max.x;
      max_[n][1] = max.y;
      const float base_x = max.x == -INFINITY ? 0.0f : max.x;
      const float base_y = max.y == -INFINITY ? 0.0f : max.y;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = ptx::exp2_approx(scores[n][2 * half] - base_x);
        const float y = ptx::exp2_approx(scores[n][2 * half + 1] - base_y);
        sum_[n][0] = half == 0 ? sum_[n][0] * scale_[n][0] + x : sum_[n][0] + x;
        sum_[n][1] = half == 0 ? sum_[n][1] * scale_[n][1] + y : sum_[n][1] + y;
        packed[half] = ptx::pack<Mma>(x, y);
      }
      ptx::store_matrices_transposed(
          ptx::shared_address(memory_.weights + (n * 8 + lane_ % 8) * Traits::kWeightStride +
                              warp_ * kPieceKeys + lane_ / 8 % 2 * 8),
          packed[0], packed[1]);
    }
    ptx::named_barrier_sync<1, Traits::kConsumers>();
    if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
      for (int m = 0; m < kDimTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) out_[m][n][i] *= scale_[n][i % 2];
        }
      }
    }
  }

  // −inf − (−inf) must not come up.
  __device__ static float rescale(float old_max, float new_max) {
    return old_max == -INFINITY ? 0.0f : ptx::exp2_approx(old_max - new_max);
  }

  // The kernel's cap · tanh(x / cap) wants absolute accuracy, which two approximations give.
  __device__ static float tanh_approx(float x) {
    return 1.0f - __fdividef(2.0f, 1.0f + ptx::exp2_approx(2.0f * kLog2E * x));
  }

  __device__ void mask(const QueryBlock& block, int32_t first_key, int32_t window,
                       float (&scores)[kQueryTiles][4]) const {
    const PieceTask& task = block.task;
    const int32_t key = first_key + static_cast<int32_t>(lane_ / 4);
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int32_t query = block.first_query + n * 8 + static_cast<int32_t>(lane_ % 4) * 2 + e;
        const int32_t token =
            metadata::min_i32(params_.by_group.quotient(query), task.query_len - 1);
        const int32_t position = task.context_len + token;
        const int32_t end = metadata::min_i32(position + 1, task.key_end);
        const int32_t begin =
            window == 0 ? task.key_begin : metadata::max_i32(task.key_begin, position + 1 - window);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int32_t at = key + half * 8;
          if (at < begin || at >= end) scores[n][e + 2 * half] = -INFINITY;
        }
      }
    }
  }

  __device__ void multiply_values(const PieceTask& piece, int32_t first_key, int32_t num_pieces) {
#pragma unroll
    for (int part = 0; part < Traits::kSlotsPerTile; ++part) {
      const int32_t first = part * Traits::kSlotPieces;
      const int32_t in_slot = metadata::min_i32(Traits::kSlotPieces, num_pieces - first);
      if (in_slot <= 0) break;
      ptx::mbarrier_wait(&ring_.full[position_.slot], position_.phase);
      char* slot = ring_.slot(position_.slot);
      const int32_t slot_key = first_key + first * kPieceKeys;
      const int32_t slot_end = slot_key + in_slot * kPieceKeys;
      const bool cleared = slot_key < piece.key_begin || slot_end > piece.key_end;
      if (cleared)
        clear_values(slot, piece.key_begin - slot_key, piece.key_end - slot_key, in_slot);
      const uint32_t weights = ptx::shared_address(
          memory_.weights + lane_ % 8 * Traits::kWeightStride + first * kPieceKeys + lane_ / 8 * 8);
#pragma unroll
      for (int two = 0; two < Traits::kSlotPieces; two += 2) {
        if (two >= in_slot) break;
        uint32_t p[kQueryTiles][4];  // queries × 32 keys
#pragma unroll
        for (int n = 0; n < kQueryTiles; ++n) {
          ptx::load_matrices(weights + static_cast<uint32_t>(
                                           (n * 8 * Traits::kWeightStride + two * kPieceKeys) * 2),
                             p[n]);
        }
        add_values(slot + two * Traits::kPieceBytes, two + 1 < in_slot, p);
      }
      if (cleared) ptx::fence_async_proxy();
      release();
    }
  }

  // Oᵀ += Vᵀ Pᵀ for two pieces of keys (one, when the second is not there).
  __device__ void add_values(const char* pieces, bool both, const uint32_t (&p)[kQueryTiles][4]) {
    const uint32_t first = ptx::shared_address(pieces);
    if constexpr (Traits::kIsFp8) {
      const uint32_t piece = first + static_cast<uint32_t>(lane_ / 16 * Traits::kPieceBytes);
#pragma unroll
      for (int m = 0; m < kDimTiles; ++m) {
        uint32_t bytes[4];  // keys 0-7, 8-15 of either piece × 16 dims
        ptx::load_matrices_transposed(
            piece + chunk_offset<Traits>(lane_ % 16, warp_ * kDimTiles + m), bytes);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          if (step == 1 && !both) break;
          uint32_t v[4];  // rows lane/4: even dims, rows + 8: odd dims
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const uint32_t four = bytes[2 * step + half];
            const uint32_t key0 = ptx::widen_e4m3x2(static_cast<uint16_t>(four));
            const uint32_t key1 = ptx::widen_e4m3x2(static_cast<uint16_t>(four >> 16));
            v[2 * half] = ptx::pick_bytes<0x5410>(key0, key1);
            v[2 * half + 1] = ptx::pick_bytes<0x7632>(key0, key1);
          }
#pragma unroll
          for (int n = 0; n < kQueryTiles; ++n) {
            ptx::multiply_add<Mma>(out_[m][n], v, p[n][2 * step], p[n][2 * step + 1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (step == 1 && !both) break;
        const uint32_t piece = first + static_cast<uint32_t>(step * Traits::kPieceBytes);
#pragma unroll
        for (int m = 0; m < kDimTiles; ++m) {
          uint32_t v[4];
          ptx::load_matrices_transposed(
              piece + chunk_offset<Traits>(lane_ % 8 + lane_ / 16 * 8,
                                           warp_ * (kWarpDims / 8) + m * 2 + lane_ / 8 % 2),
              v);
#pragma unroll
          for (int n = 0; n < kQueryTiles; ++n) {
            ptx::multiply_add<Mma>(out_[m][n], v, p[n][2 * step], p[n][2 * step + 1]);
          }
        }
      }
    }
  }

  // Zeros for keys of the slot outside [begin, end), in this warp's dims: their weight is zero, but
  // what lies there may be NaN.
  __device__ void clear_values(char* slot, int32_t begin, int32_t end, int32_t num_pieces) const {
    constexpr uint32_t kChunks = kWarpBytes / 16;
#pragma unroll 1
    for (uint32_t i = lane_; i < static_cast<uint32_t>(num_pieces) * kPieceKeys * kChunks;
         i += 32) {
      const uint32_t key = i / kChunks;
      if (static_cast<int32_t>(key) >= begin && static_cast<int32_t>(key) < end) continue;
      char* chunk = slot + key / kPieceKeys * Traits::kPieceBytes +
                    chunk_offset<Traits>(key % kPieceKeys, warp_ * kChunks + i % kChunks);
      *reinterpret_cast<uint4*>(chunk) = uint4{0, 0, 0, 0};
    }
    __syncwarp();
  }

  // The warp is done with the current slot.
  __device__ void release() {
    if constexpr (Traits::kSlotReleases == Traits::kConsumers) {
      ptx::mbarrier_arrive(&ring_.empty[position_.slot]);
    } else {
      __syncwarp();
      if (lane_ == 0) ptx::mbarrier_arrive(&ring_.empty[position_.slot]);
    }
    position_.advance();
  }

  // The dim of out_[m][n][i] for this lane.
  __device__ uint32_t dim_of(uint32_t m, uint32_t i) const {
    const uint32_t first = warp_ * kWarpDims + m * 16;
    return Traits::kIsFp8 ? first + lane_ / 4 * 2 + i / 2 : first + lane_ / 4 + i / 2 * 8;
  }

  __device__ void finish(const QueryBlock& block) {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float sum = sum_[n][e];
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (lane_ < 4) memory_.sums[warp_ * Traits::kQueries + n * 8 + 2 * lane_ + e] = sum;
      }
    }
    ptx::named_barrier_sync<1, Traits::kConsumers>();
    race_delay<Traits::kRaceDelays>();
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint32_t in_block = n * 8 + lane_ % 4 * 2 + e;
        const int32_t query = block.first_query + static_cast<int32_t>(in_block);
        if (query >= block.num_queries) continue;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < Traits::kConsumerWarps; ++w) {
          sum += memory_.sums[w * Traits::kQueries + in_block];
        }
        if (block.task.whole != 0) {
          write_result(place_of(block, query), n, e, sum);
        } else {
          write_partial(block.task, query, n, e, sum);
        }
      }
    }
  }

  // Not "> 0": a sum that is NaN must show.
  __device__ float factor_of(float sum) const {
    return sum == 0.0f ? 0.0f : __fdividef(value_scale_, sum);
  }

  __device__ void write_result(const Place& place, int n, int e, float sum) {
    float max = max_[n][e];
    float weight = 1.0f;
    if (params_.sinks != nullptr) {
      const float sink = params_.sinks[place.head] * kLog2E;
      const float with_sink = fmaxf(max, sink);
      weight = rescale(max, with_sink);
      sum = sum * weight + rescale(sink, with_sink);
      max = with_sink;
    }
    const float factor = weight * factor_of(sum);
    auto* out = static_cast<typename Traits::Io*>(params_.out) + place.token * params_.out_stride +
                place.head * kHeadDim;
#pragma unroll
    for (int m = 0; m < kDimTiles; ++m) {
#pragma unroll
      for (int i = e; i < 4; i += 2) {
        out[dim_of(m, i)] = static_cast<typename Traits::Io>(out_[m][n][i] * factor);
      }
    }
    if (params_.lse != nullptr && threadIdx.x < 4) {
      params_.lse[place.token * params_.num_q_heads + place.head] =
          sum == 0.0f ? -INFINITY : (max + __log2f(sum)) * kLn2;
    }
  }

  __device__ void write_partial(const PieceTask& task, int32_t query, int n, int e, float sum) {
    const int64_t at = (static_cast<int64_t>(task.partial) * params_.num_kv_heads + kv_head_) *
                           params_.max_queries +
                       query;
    const float factor = factor_of(sum);
    float* out = params_.partial_out + at * kHeadDim;
#pragma unroll
    for (int m = 0; m < kDimTiles; ++m) {
#pragma unroll
      for (int i = e; i < 4; i += 2) out[dim_of(m, i)] = out_[m][n][i] * factor;
    }
    if (threadIdx.x < 4) {
      params_.partial_lse[at] = sum == 0.0f ? -INFINITY : max_[n][e] + __log2f(sum);
    }
  }

  const DecodeParams& params_;
  const Ring<Traits>& ring_;
  const ConsumerMemory<Traits>& memory_;
  int32_t kv_head_;
  uint32_t lane_;
  uint32_t warp_;
  float score_scale_;
  float value_scale_ = 1.0f;
  RingPosition<Traits::kSlots> position_;
  float max_[kQueryTiles][2];
  float sum_[kQueryTiles][2];    // of this lane's keys
  float scale_[kQueryTiles][2];  // what the last tile's maximum makes of earlier results
  float out_[kDimTiles][kQueryTiles][4];
};

}  // namespace headrace::attention
