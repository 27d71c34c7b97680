// SPDX-License-Identifier: Apache-2.0
// First kernel of chunked prefill: what the tokens of a chunk say without the state (ChunkTerms),
// for all chunks of the step in any order.
//
//   T = (I + tril(diag(β) K Kᵀ, −1))⁻¹ diag(β)       solve_ij  = T_ij · e^{G_i − G_j}
//   P = tril(Q Kᵀ)                                    scores_ij = P_ij · e^{G_i − G_j}
//
// The inverse needs no gates: decays multiply its elements afterwards. K Kᵀ and Q Kᵀ belong to a
// key head and are made once for its value heads.
//
// A block is one warpgroup; it takes (chunk, key head) pairs with a stride of the grid. Thread t of
// warp w holds rows 16 w + t % 32 / 4 (and 8 below) of the products; the value heads follow each
// other two by two.
#pragma once

#include <cstdint>

#include "gdn/cuda/prefill_params.cuh"
#include "gdn/cuda/prefill_solve.cuh"
#include "gdn/cuda/prefill_traits.cuh"
#include "gdn/gates.h"
#include "tensor/cuda/ptx.cuh"
#include "tensor/cuda/wgmma.cuh"

namespace headrace::gdn {

inline constexpr int kMaxGroup = 8;  // Hv / Hk

struct TermsShared {
  union {
    struct {
      alignas(kAtomBytes) uint8_t keys[kTileBytes];
      uint8_t queries[kTileBytes];
    };
    ChunkTerms terms;  // once the products are made
  };
  SolveShared solve;
  float log_decay[kMaxGroup][kChunk];  // G, in powers of two; the last token's from n on
  float beta[kMaxGroup][kChunk];       // 0 from n on
  uint64_t full;
};

template <typename Element>
class TermsMaker {
 public:
  __device__ __forceinline__ TermsMaker(const PrefillKernelParams& params, TermsShared& shared)
      : params_(params), shared_(shared), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    const int32_t num_pairs = params_.step.counts->num_chunks * params_.num_k_heads;
    for (int32_t pair = blockIdx.x; pair < num_pairs; pair += gridDim.x) {
      treat(pair / params_.num_k_heads, pair % params_.num_k_heads);
    }
    if (threadIdx.x == 0) ptx::bulk_stores_wait();
  }

 private:
  __device__ __forceinline__ void treat(int32_t chunk, int32_t key_head) {
    const int32_t token = params_.step.chunk_token[chunk];
    const int32_t n = params_.step.chunk_len[chunk];
    if (threadIdx.x == 0) {
      ptx::bulk_stores_wait_read();
      ptx::mbarrier_arrive_expect_bytes(&shared_.full, 2 * kTileBytes);
      ptx::tensor_copy_5d(shared_.keys, &params_.key_map, &shared_.full, 0, token, 0, key_head, 0);
      ptx::tensor_copy_5d(shared_.queries, &params_.query_map, &shared_.full, 0, token, 0, key_head,
                          0);
    }
    const int32_t first_head = key_head * params_.group_size;
    for (int32_t i = warp_; i < params_.group_size; i += 4) load_gates(i, first_head + i, token, n);
    ptx::mbarrier_wait(&shared_.full, phase_);
    phase_ ^= 1;

    float key_products[32];
    float query_products[32];
    multiply_tiles(key_products, query_products);
    ChunkSolver solver(shared_.solve);
    solver.set_key_products(key_products, n);
    __syncthreads();
    for (int32_t i = 0; i < params_.group_size; i += 2) {
      const int32_t second = min(i + 1, params_.group_size - 1);
      solver.solve(shared_.beta[i], shared_.beta[second]);
      for (int32_t j = i; j <= second; ++j) {
        make_terms(shared_.solve.solution[j - i], query_products, j, n);
        ptx::fence_async_proxy();
        __syncthreads();
        if (threadIdx.x == 0) {
          const int64_t at = int64_t{chunk} * params_.num_v_heads + first_head + j;
          ptx::bulk_store(params_.terms + at, &shared_.terms, ChunkTerms::kBytes);
          ptx::bulk_stores_commit();
          ptx::bulk_stores_wait_read();
        }
        __syncthreads();
      }
    }
  }

  // One warp; each lane two neighbouring tokens.
  __device__ __forceinline__ void load_gates(int32_t i, int32_t head, int32_t token, int32_t n) {
    float decay[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t t = 2 * lane_ + e;
      const int64_t at = int64_t{token + t} * params_.num_v_heads + head;
      decay[e] = t < n ? log2_decay(params_.gate[at]) : 0.0f;
      shared_.beta[i][t] = t < n ? params_.beta[at] : 0.0f;
    }
    float sum = decay[0] + decay[1];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float before = __shfl_up_sync(0xFFFFFFFF, sum, distance);
      if (lane_ >= distance) sum += before;
    }
    shared_.log_decay[i][2 * lane_] = sum - decay[1];
    shared_.log_decay[i][2 * lane_ + 1] = sum;
  }
  __device__ __forceinline__ float log2_decay(float gate) const {
    return decode_gate(gate, params_.gate_format) * kLog2E;
  }

  __device__ __forceinline__ void multiply_tiles(float (&key_products)[32],
                                                 float (&query_products)[32]) const {
    const uint64_t keys = wgmma::descriptor(ptx::shared_address(shared_.keys), 0, kAtomBytes);
    const uint64_t queries = wgmma::descriptor(ptx::shared_address(shared_.queries), 0, kAtomBytes);
    wgmma::pin(key_products);
    wgmma::pin(query_products);
    wgmma::fence();
#pragma unroll
    for (int k = 0; k < kPrefillHeadDim / 16; ++k) {
      const uint64_t offset = wgmma::descriptor_offset(k / 4 * kSliceBytes + k % 4 * 32);
      wgmma::Product<Element, kChunk>::from_shared(key_products, keys + offset, keys + offset,
                                                   k > 0);
      wgmma::Product<Element, kChunk>::from_shared(query_products, queries + offset, keys + offset,
                                                   k > 0);
    }
    wgmma::commit();
    wgmma::wait<0>();
    wgmma::pin(key_products);
    wgmma::pin(query_products);
  }

  // Terms of the i-th value head from its solution. Selection, not multiplication, keeps away what
  // lies above the diagonal or past the chunk's end: it may be anything.
  __device__ __forceinline__ void make_terms(const HalfMatrix& solution,
                                             const float (&query_products)[32], int32_t i,
                                             int32_t n) {
    const float* log_decay = shared_.log_decay[i];
    const int first_row = 16 * warp_ + lane_ / 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = 8 * j + 2 * (lane_ % 4);
      const float2 decay_at = *reinterpret_cast<const float2*>(log_decay + column);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + 8 * half;
        const uint32_t to = slice_offset(row, j) + 4 * (lane_ % 4);
        uint32_t solve = 0;
        uint32_t scores = 0;
        if (j <= 2 * warp_ + half && row < n) {
          const float row_decay = log_decay[row];
          const float first = column <= row ? ptx::exp2_approx(row_decay - decay_at.x) : 0.0f;
          const float second = column + 1 <= row ? ptx::exp2_approx(row_decay - decay_at.y) : 0.0f;
          const float2 t = __half22float2(*reinterpret_cast<const __half2*>(
              &solution.elements[row * HalfMatrix::kStride + column]));
          solve = ptx::pack<Element>(t.x * first, t.y * second);
          scores = ptx::pack<Element>(
              column <= row ? query_products[4 * j + 2 * half] * first : 0.0f,
              column + 1 <= row ? query_products[4 * j + 2 * half + 1] * second : 0.0f);
        }
        *reinterpret_cast<uint32_t*>(shared_.terms.solve + to) = solve;
        *reinterpret_cast<uint32_t*>(shared_.terms.scores + to) = scores;
      }
    }
    const float last = log_decay[n - 1];
    if (threadIdx.x < kChunk) {
      const int t = static_cast<int>(threadIdx.x);
      shared_.terms.from_start[t] = t < n ? ptx::exp2_approx(log_decay[t]) : 0.0f;
      shared_.terms.to_end[t] = t < n ? ptx::exp2_approx(last - log_decay[t]) : 0.0f;
      if (t < 4) shared_.terms.total[t] = ptx::exp2_approx(last);
    }
  }

  const PrefillKernelParams& params_;
  TermsShared& shared_;
  const int warp_;
  const int lane_;
  uint32_t phase_ = 0;
};

template <typename Element>
__global__ void __launch_bounds__(128, 3)
    prefill_terms_kernel(const __grid_constant__ PrefillKernelParams params) {
  extern __shared__ uint8_t memory[];
  TermsShared& shared = *reinterpret_cast<TermsShared*>(
      (reinterpret_cast<uintptr_t>(memory) + kAtomBytes - 1) / kAtomBytes * kAtomBytes);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&params.key_map);
    ptx::prefetch_tensor_map(&params.query_map);
    ptx::mbarrier_init(&shared.full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  TermsMaker<Element>(params, shared).run();
}

}  // namespace headrace::gdn
