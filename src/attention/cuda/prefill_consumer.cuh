// SPDX-License-Identifier: Apache-2.0
// A warpgroup that attends 64 queries of one head to the tiles of K and V that the producer brings.
// Scores, weights and output stay in registers. Knows nothing of pages.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "attention/cuda/prefill_params.cuh"
#include "attention/cuda/prefill_softmax.cuh"
#include "attention/cuda/prefill_tiles.cuh"
#include "attention/cuda/prefill_work.cuh"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/wgmma.cuh"

namespace headrace::attention {

// One warpgroup.
template <typename Traits>
class PrefillConsumer {
 public:
  using Shared = PrefillShared<Traits>;
  using Element = typename Traits::Element;
  __device__ __forceinline__ PrefillConsumer(const PrefillKernelParams& params, Shared& shared,
                                             int number)
      : params_(params), shared_(shared), number_(number) {}

  __device__ __forceinline__ void run() {
    uint32_t item_phase = 0;
    for (;;) {
      ptx::mbarrier_wait(&shared_.item_full, item_phase);
      item_phase ^= 1;
      const PrefillItem item = shared_.item;
      if (item.row < 0) return;
      attend(item);
    }
  }

 private:
  static constexpr int kScores = Traits::kKeys / 2;  // of a thread
  static constexpr int kOutputs = Traits::kHeadDim / 2;
  static constexpr int kSteps = Traits::kKeys / 16;  // of the second product

  __device__ static int32_t thread() { return static_cast<int32_t>(threadIdx.x % 128); }
  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }
  // The thread's upper row, and its first column.
  __device__ static int32_t upper_row() { return thread() / 32 * 16 + lane() / 4; }
  __device__ static int32_t first_column() { return 2 * (lane() % 4); }

  __device__ __forceinline__ void attend(const PrefillItem& item) {
    const int32_t end = tiles_end<Traits>(item);
    const int32_t begin = tiles_begin<Traits>(item, params_.window);
    const int32_t first_position = item.first_position + number_ * Traits::kWarpgroupQueries;
    float scores[kScores];
    float out[kOutputs];
    uint32_t weights[kSteps][4];
    float correction[2];
    PrefillSoftmax state = begin_softmax(item.head);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) out[i] = 0.0f;

    ptx::mbarrier_wait(&shared_.keys_full[keys_.stage], keys_.phase);
    start_scores(scores);
    wgmma::wait<0>();
    wgmma::pin(scores);
    release_keys();
    if (end - 1 == begin) release_item();
    make_weights(scores, first_position, end - 1, state, correction);
    pack_weights(scores, weights);
    if (end * Traits::kKeys > item.seq_len) {
      ptx::mbarrier_wait(&shared_.values_full[values_.stage], values_.phase);
      clear_values(item.seq_len - (end - 1) * Traits::kKeys);
    }

    for (int32_t tile = end - 2; tile >= begin; --tile) {
      ptx::mbarrier_wait(&shared_.keys_full[keys_.stage], keys_.phase);
      start_scores(scores);
      ptx::mbarrier_wait(&shared_.values_full[values_.stage], values_.phase);
      start_output(weights, out);
      wgmma::wait<1>();
      wgmma::pin(scores);
      release_keys();
      if (tile == begin) release_item();
      make_weights(scores, first_position, tile, state, correction);
      wgmma::wait<0>();
      wgmma::pin(out);
      release_values();
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) out[i] *= correction[i / 2 % 2];
      pack_weights(scores, weights);
    }
    ptx::mbarrier_wait(&shared_.values_full[values_.stage], values_.phase);
    start_output(weights, out);
    wgmma::wait<0>();
    wgmma::pin(out);
    release_values();
    store(item, state, out);
  }

  // A sink is a key with value 0 that was seen before all others.
  __device__ __forceinline__ PrefillSoftmax begin_softmax(int32_t head) const {
    PrefillSoftmax state{{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    if (params_.sinks != nullptr) {
      const float sink = params_.sinks[head] * 1.44269504f / params_.log2_scale;
      if (sink > -INFINITY) {
        state.max[0] = state.max[1] = sink;
        if (lane() % 4 == 0) state.sum[0] = state.sum[1] = 1.0f;
      }
    }
    return state;
  }

  __device__ __forceinline__ void start_scores(float (&scores)[kScores]) {
    const uint64_t query =
        wgmma::descriptor(ptx::shared_address(shared_.query[number_]), 0, Traits::kAtomBytes);
    const uint64_t keys = wgmma::descriptor(ptx::shared_address(shared_.keys[keys_.stage]), 0,
                                            Traits::kSlices * Traits::kAtomBytes);
    wgmma::pin(scores);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < Traits::kHeadDim / 16; ++k) {
      const uint32_t query_slice = k / 4 * Traits::kWarpgroupQueries * 128;
      const uint32_t keys_slice = k / 4 * Traits::kAtomBytes;
      wgmma::Product<Element, Traits::kKeys>::from_shared(
          scores, query + wgmma::descriptor_offset(query_slice + k % 4 * 32),
          keys + wgmma::descriptor_offset(keys_slice + k % 4 * 32), k > 0);
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void start_output(const uint32_t (&weights)[kSteps][4],
                                               float (&out)[kOutputs]) {
    constexpr uint32_t kPieceBytes = Traits::kSlices * Traits::kAtomBytes;
    const uint64_t values = wgmma::descriptor(ptx::shared_address(shared_.values[values_.stage]),
                                              Traits::kAtomBytes, kPieceBytes);
    wgmma::pin(out);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      wgmma::Product<Element, Traits::kHeadDim>::template from_registers<wgmma::Major::kN>(
          out, weights[k], values + wgmma::descriptor_offset(2 * k * kPieceBytes), 1);
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void make_weights(float (&scores)[kScores], int32_t first_position,
                                               int32_t tile, PrefillSoftmax& state,
                                               float (&correction)[2]) {
    if constexpr (Traits::kSoftCap) cap_scores(scores, params_.cap_scale);
    const int32_t first_key = tile * Traits::kKeys;
    const int32_t last_position = first_position + Traits::kWarpgroupQueries - 1;
    const bool all_past = first_key + Traits::kKeys - 1 <= first_position;
    const bool all_inside = params_.window <= 0 || first_key > last_position - params_.window;
    if (!(all_past && all_inside)) {
      mask_scores(scores, first_position + upper_row() - first_key - first_column(),
                  params_.window > 0 ? params_.window : INT32_MAX);
    }
    softmax_tile(scores, params_.log2_scale, state, correction);
  }

  __device__ __forceinline__ static void pack_weights(const float (&scores)[kScores],
                                                      uint32_t (&weights)[kSteps][4]) {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      weights[i / 4][i % 4] = ptx::pack<Element>(scores[2 * i], scores[2 * i + 1]);
    }
  }

  // Rows of the V tile at hand, from `row` on. Each warpgroup clears them for itself: the other one
  // at most writes zeros over zeros.
  __device__ __forceinline__ void clear_values(int32_t row) {
    constexpr int kUnits = Traits::kHeadDim / 8;  // of 16 bytes in a row
    for (int32_t i = thread() + row * kUnits; i < Traits::kKeys * kUnits; i += 128) {
      const int32_t token = i / kUnits;
      const int32_t unit = i % kUnits;
      const int32_t atom = token / 8 * Traits::kSlices + unit / 8;
      uint8_t* to = shared_.values[values_.stage] + atom * Traits::kAtomBytes + token % 8 * 128 +
                    unit % 8 * 16;
      *reinterpret_cast<uint4*>(to) = uint4{};
    }
    ptx::fence_async_proxy();
    wgmma::named_barrier_sync(1 + number_, 128);
  }

  __device__ __forceinline__ void release_keys() {
    if (thread() == 0) ptx::mbarrier_arrive(&shared_.keys_empty[keys_.stage]);
    keys_.advance();
  }
  __device__ __forceinline__ void release_values() {
    if (thread() == 0) ptx::mbarrier_arrive(&shared_.values_empty[values_.stage]);
    values_.advance();
  }
  __device__ __forceinline__ void release_item() { ptx::mbarrier_arrive(&shared_.item_empty); }
  __device__ __forceinline__ void store(const PrefillItem& item, const PrefillSoftmax& state,
                                        const float (&out)[kOutputs]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t query = number_ * Traits::kWarpgroupQueries + upper_row() + 8 * half;
      const float sum = quad_sum(state.sum[half]);
      if (query >= item.num_queries) continue;
      const int64_t token = item.first_token + query;
      const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
      Element* to = static_cast<Element*>(params_.out) + token * params_.out_stride +
                    int64_t{item.head} * Traits::kHeadDim + first_column();
#pragma unroll
      for (int i = 0; i < kOutputs / 4; ++i) {
        *reinterpret_cast<uint32_t*>(to + 8 * i) =
            ptx::pack<Element>(out[4 * i + 2 * half] * factor, out[4 * i + 2 * half + 1] * factor);
      }
      if (params_.lse != nullptr && lane() % 4 == 0) {
        constexpr float kLn2 = 0.693147181f;
        params_.lse[token * params_.num_q_heads + item.head] =
            sum > 0.0f ? state.max[half] * params_.log2_scale * kLn2 + logf(sum) : -INFINITY;
      }
    }
  }

  const PrefillKernelParams& params_;
  Shared& shared_;
  const int number_;
  RingPlace<Traits::kStages> keys_;
  RingPlace<Traits::kStages> values_;
};

}  // namespace headrace::attention
