// SPDX-License-Identifier: Apache-2.0
// Second kernel of chunked prefill: carries the state S [V, K] of a row and value head through its
// chunks. With the chunk's terms (ChunkTerms, made before) and its Q, K, V, all transposed so that
// value columns v are rows of every product:
//   X = S Kᵀ               [v, token]
//   W = Vᵀ − X · e^G
//   Y = W solveᵀ           the values that the chunk writes
//   O = S Qᵀ · e^G + Y scoresᵀ
//   S ← e^{G_n} S + (Y · e^{G_n − G}) K
//
// Every left operand comes from a product before, and a product's accumulators, rounded, are laid
// out as the next one's left operand: state and all between stay in registers, and a warpgroup
// waits for nobody but the copy engine. A warpgroup has 64 value columns; a block 128 or 64 of them
// and one producer warp that keeps a ring of three chunks filled.
//
// The chain of a chunk is X, Y, S. The output's products are put where it would leave the tensor
// cores idle: half of S Qᵀ behind X while W is made, half behind Y while Y is rounded, Y scoresᵀ
// behind S while S is rounded for the next chunk, and the output of a chunk is stored during the
// next.
#pragma once

#include <cstdint>

#include "gdn/cuda/prefill_params.cuh"
#include "gdn/cuda/prefill_scan_state.cuh"
#include "gdn/cuda/prefill_traits.cuh"
#include "gdn/cuda/prefill_work.cuh"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/wgmma.cuh"

namespace headrace::gdn {

template <typename Traits>
struct ScanStage {
  alignas(kAtomBytes) uint8_t keys[kTileBytes];
  uint8_t queries[kTileBytes];
  uint8_t values[Traits::kWarpgroups][kSliceBytes];
  ChunkTerms terms;
};
template <typename Traits>
struct ScanShared {
  ScanStage<Traits> stages[Traits::kStages];
  uint8_t out[Traits::kWarpgroups][kSliceBytes];
  uint64_t full[Traits::kStages];
  uint64_t empty[Traits::kStages];
};

template <typename Traits>
struct ScanRing {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Traits::kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// One thread.
template <typename Traits>
__device__ __forceinline__ void scan_producer(const PrefillKernelParams& params,
                                              const ScanWork& work, ScanShared<Traits>& shared) {
  ScanRing<Traits> ring;
  const int32_t slices = work.slices();
  const uint32_t bytes = 2 * kTileBytes + slices * kSliceBytes + ChunkTerms::kBytes;
  for (int32_t i = blockIdx.x; i < work.num_items(); i += gridDim.x) {
    const ScanItem item = work.item(i);
    const int32_t key_head = item.head / params.group_size;
    for (int32_t c = item.first_chunk; c < item.first_chunk + item.num_chunks; ++c) {
      const int32_t token = params.step.chunk_token[c];
      ptx::mbarrier_wait(&shared.empty[ring.stage], ring.phase ^ 1);
      ScanStage<Traits>& stage = shared.stages[ring.stage];
      uint64_t* full = &shared.full[ring.stage];
      ptx::mbarrier_arrive_expect_bytes(full, bytes);
      ptx::tensor_copy_5d(stage.keys, &params.key_map, full, 0, token, 0, key_head, 0);
      ptx::bulk_copy(&stage.terms, params.terms + int64_t{c} * params.num_v_heads + item.head,
                     ChunkTerms::kBytes, full);
      for (int32_t slice = 0; slice < slices; ++slice) {
        ptx::tensor_copy_5d(stage.values[slice], &params.value_map, full, 0, token,
                            item.first_slice + slice, item.head, 0);
      }
      ptx::tensor_copy_5d(stage.queries, &params.query_map, full, 0, token, 0, key_head, 0);
      ring.advance();
    }
  }
}

// One warpgroup.
template <typename Traits>
class ScanConsumer {
 public:
  using Element = typename Traits::Element;
  __device__ __forceinline__ ScanConsumer(const PrefillKernelParams& params,
                                          ScanShared<Traits>& shared, int number)
      : params_(params), shared_(shared), number_(number) {}

  __device__ __forceinline__ void run(const ScanWork& work) {
    for (int32_t i = blockIdx.x; i < work.num_items(); i += gridDim.x) scan(work.item(i));
  }

 private:
  using Wide = wgmma::Product<Element, kPrefillHeadDim>;
  using Narrow = wgmma::Product<Element, kChunk>;
  static constexpr int kStateSteps = kPrefillHeadDim / 16;  // of a product over K
  static constexpr int kTokenSteps = kChunk / 16;           // of a product over tokens

  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32 % 4); }
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  __device__ __forceinline__ void scan(const ScanItem& item) {
    const RowState row = row_state(params_.step, params_.slots, item.row);
    ScanState<Element> state(params_, item.head, item.first_slice + number_);
    float s[64];
    state.begin(row, s);
    float x[32];
    float o[32];
    uint32_t left[kStateSteps][4];  // S
    uint32_t y[kTokenSteps][4];
    int64_t token = row.first_token;
    int32_t n = first_chunk_tokens(row);
    previous_tokens_ = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) o[i] = 0.0f;

    pack_rows(s, left);
    for (int32_t c = 0; c < item.num_chunks; ++c) {
      ptx::mbarrier_wait(&shared_.full[ring_.stage], ring_.phase);
      ScanStage<Traits>& stage = shared_.stages[ring_.stage];
      if (n < kChunk) clear_keys(stage, n);
      start_from_state(x, left, stage.keys, 0, kStateSteps);
      start_from_state(o, left, stage.queries, 0, kStateSteps / 2);
      store_out(item, previous_token_, previous_tokens_);
      uint32_t values[kTokenSteps][4];
      load_values(stage, values);
      wgmma::wait<1>();
      wgmma::pin(x);
      uint32_t w[kTokenSteps][4];
      make_w(x, values, stage.terms, n, w);

      start_over_tokens(x, w, stage.terms.solve, 0);
      start_from_state(o, left, stage.queries, kStateSteps / 2, kStateSteps);
      const float total = stage.terms.total[0];
#pragma unroll
      for (int i = 0; i < 64; ++i) s[i] *= total;
      wgmma::wait<1>();
      wgmma::pin(x);
      pack_rows(x, y);
      scale_columns(x, stage.terms.to_end);
      pack_rows(x, w);

      start_update(s, w, stage.keys);
      wgmma::wait<1>();
      wgmma::pin(o);
      scale_columns(o, stage.terms.from_start);
      start_over_tokens(o, y, stage.terms.scores, 1);
      wgmma::wait<1>();
      wgmma::pin(s);
      pack_rows(s, left);
      previous_token_ = token;
      previous_tokens_ = n;
      token += n;
      state.keep(item.row, row.context_len + token - row.first_token, s);
      n = min(kChunk, static_cast<int32_t>(row.first_token + row.query_len - token));
      wgmma::wait<0>();
      wgmma::pin(o);
      pack_rows(o, out_);
      release();
    }
    store_out(item, previous_token_, previous_tokens_);
    state.end(row, s);
  }

  __device__ static int32_t first_chunk_tokens(const RowState& row) {
    return min(row.query_len, kChunk - row.context_len % kChunk);
  }

  // Accumulators [64, 16 · kSteps] as left operand.
  template <int kWords, int kSteps>
  __device__ __forceinline__ static void pack_rows(const float (&c)[kWords],
                                                   uint32_t (&a)[kSteps][4]) {
    static_assert(kWords == 8 * kSteps);
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) {
      a[i / 4][i % 4] = ptx::pack<Element>(c[2 * i], c[2 * i + 1]);
    }
  }

  // c += S [64, K] · tileᵀ, steps `begin` to `end` of 16 along K; from nothing when begin is 0.
  __device__ __forceinline__ static void start_from_state(float (&c)[32],
                                                          const uint32_t (&a)[kStateSteps][4],
                                                          const uint8_t* tile, int begin, int end) {
    const uint64_t b = wgmma::descriptor(ptx::shared_address(tile), 0, kAtomBytes);
    if (begin == 0) wgmma::pin(c);  // else products into c are on their way
    wgmma::fence();
#pragma unroll
    for (int k = begin; k < end; ++k) {
      Narrow::template from_registers<wgmma::Major::kK>(
          c, a[k], b + wgmma::descriptor_offset(k / 4 * kSliceBytes + k % 4 * 32), k > 0);
    }
    wgmma::commit();
  }
  // c (+)= a [64, tokens] · matrixᵀ
  __device__ __forceinline__ static void start_over_tokens(float (&c)[32],
                                                           const uint32_t (&a)[kTokenSteps][4],
                                                           const uint8_t* matrix, int accumulate) {
    const uint64_t b = wgmma::descriptor(ptx::shared_address(matrix), 0, kAtomBytes);
    wgmma::pin(c);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < kTokenSteps; ++k) {
      Narrow::template from_registers<wgmma::Major::kK>(
          c, a[k], b + wgmma::descriptor_offset(k * 32), accumulate | (k > 0));
    }
    wgmma::commit();
  }
  // s += a [64, tokens] · keys [tokens, K]
  __device__ __forceinline__ static void start_update(float (&s)[64],
                                                      const uint32_t (&a)[kTokenSteps][4],
                                                      const uint8_t* keys) {
    const uint64_t b = wgmma::descriptor(ptx::shared_address(keys), kSliceBytes, kAtomBytes);
    wgmma::pin(s);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < kTokenSteps; ++k) {
      Wide::template from_registers<wgmma::Major::kN>(
          s, a[k], b + wgmma::descriptor_offset(2 * k * kAtomBytes), 1);
    }
    wgmma::commit();
  }

  // Keys past the chunk's end are another row's, or nobody's and perhaps NaN. Each warpgroup clears
  // them for itself: the other one at most writes zeros over zeros.
  __device__ __forceinline__ void clear_keys(ScanStage<Traits>& stage, int32_t n) {
    constexpr int kUnits = kPrefillHeadDim / 8;
    for (int32_t i = threadIdx.x % 128 + n * kUnits; i < kChunk * kUnits; i += 128) {
      const int32_t unit = i % kUnits;
      *reinterpret_cast<uint4*>(stage.keys + unit / 8 * kSliceBytes + i / kUnits * 128 +
                                unit % 8 * 16) = uint4{};
    }
    ptx::fence_async_proxy();
    wgmma::named_barrier_sync(1 + number_, 128);
  }

  // The address that lane i gives for tokens 16 step … + 15 of a [token, 64] slice, transposed:
  // matrix i / 8 is (tokens, columns) = (i / 16 % 2, i / 8 % 2) of the warp's 16 columns.
  __device__ __forceinline__ static uint32_t transposed_offset(int step) {
    const int token = 16 * step + lane() / 16 * 8 + lane() % 8;
    return slice_offset(token, 2 * warp() + lane() / 8 % 2);
  }
  // As left operand, but for the transposition.
  __device__ __forceinline__ void load_values(const ScanStage<Traits>& stage,
                                              uint32_t (&values)[kTokenSteps][4]) const {
    const uint32_t base = ptx::shared_address(stage.values[number_]);
#pragma unroll
    for (int step = 0; step < kTokenSteps; ++step) {
      ptx::load_matrices_transposed(base + transposed_offset(step), values[step]);
    }
  }

  __device__ __forceinline__ static float2 column_pair(const float* values, int j) {
    return *reinterpret_cast<const float2*>(values + 8 * j + 2 * (lane() % 4));
  }
  // w = v − x · e^G, and 0 past the chunk's end, where x and v may be anything.
  __device__ __forceinline__ static void make_w(const float (&x)[32],
                                                const uint32_t (&values)[kTokenSteps][4],
                                                const ChunkTerms& terms, int32_t n,
                                                uint32_t (&w)[kTokenSteps][4]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 factor = column_pair(terms.from_start, j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 2 * (j % 2) + half;
        const float2 v = unpack<Element>(values[j / 2][at]);
        const float first = v.x - x[4 * j + 2 * half] * factor.x;
        const float second = v.y - x[4 * j + 2 * half + 1] * factor.y;
        w[j / 2][at] = ptx::pack<Element>(first, second);
      }
      if (n < kChunk) {
        const int column = 8 * j + 2 * (lane() % 4);
        const uint32_t mask = (column < n ? 0xFFFFu : 0u) | (column + 1 < n ? 0xFFFF0000u : 0u);
        w[j / 2][2 * (j % 2)] &= mask;
        w[j / 2][2 * (j % 2) + 1] &= mask;
      }
    }
  }
  __device__ __forceinline__ static void scale_columns(float (&c)[32], const float* factors) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 factor = column_pair(factors, j);
      c[4 * j + 0] *= factor.x;
      c[4 * j + 1] *= factor.y;
      c[4 * j + 2] *= factor.x;
      c[4 * j + 3] *= factor.y;
    }
  }

  // The warp is done with the stage at hand.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (lane() == 0) ptx::mbarrier_arrive(&shared_.empty[ring_.stage]);
    ring_.advance();
  }
  // Through shared memory, where it is turned, so that a token's columns are stored side by side.
  __device__ __forceinline__ void store_out(const ScanItem& item, int64_t token, int32_t n) {
    const uint32_t base = ptx::shared_address(shared_.out[number_]);
    wgmma::named_barrier_sync(1 + number_, 128);
#pragma unroll
    for (int step = 0; step < kTokenSteps; ++step) {
      ptx::store_matrices_transposed(base + transposed_offset(step), out_[step]);
    }
    wgmma::named_barrier_sync(1 + number_, 128);
    Element* to = static_cast<Element*>(params_.out) + token * params_.out_stride +
                  int64_t{item.head} * kPrefillHeadDim + (item.first_slice + number_) * 64;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t row = 16 * i + static_cast<int32_t>(threadIdx.x % 128) / 8;
      const int32_t unit = static_cast<int32_t>(threadIdx.x) % 8;
      if (row < n) {
        *reinterpret_cast<uint4*>(to + row * params_.out_stride + 8 * unit) =
            *reinterpret_cast<const uint4*>(shared_.out[number_] + slice_offset(row, unit));
      }
    }
  }

  const PrefillKernelParams& params_;
  ScanShared<Traits>& shared_;
  const int number_;
  ScanRing<Traits> ring_;
  uint32_t out_[kTokenSteps][4];  // the output of the chunk before, rounded
  int64_t previous_token_ = 0;
  int32_t previous_tokens_ = 0;
};

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, 1)
    prefill_scan_kernel(const __grid_constant__ PrefillKernelParams params) {
  extern __shared__ uint8_t memory[];
  using Shared = ScanShared<Traits>;
  Shared& shared = *reinterpret_cast<Shared*>(
      (reinterpret_cast<uintptr_t>(memory) + kAtomBytes - 1) / kAtomBytes * kAtomBytes);
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  const ScanWork work(params, static_cast<int32_t>(gridDim.x));
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&params.key_map);
    ptx::prefetch_tensor_map(&params.query_map);
    ptx::prefetch_tensor_map(&params.value_map);
    for (int i = 0; i < Traits::kStages; ++i) {
      ptx::mbarrier_init(&shared.full[i], 1);
      ptx::mbarrier_init(&shared.empty[i], 4 * work.slices());  // warps
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  if (warpgroup == 0) {
    wgmma::give_registers<Traits::kProducerRegisters>();
    if (threadIdx.x == 0) scan_producer<Traits>(params, work, shared);
  } else {
    wgmma::take_registers<Traits::kConsumerRegisters>();
    if (warpgroup <= work.slices()) ScanConsumer<Traits>(params, shared, warpgroup - 1).run(work);
  }
}

}  // namespace headrace::gdn
