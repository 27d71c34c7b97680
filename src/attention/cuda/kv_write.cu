// SPDX-License-Identifier: Apache-2.0
// A thread an item: kPerItem consecutive elements of one head vector of K and the same of V. Items
// are numbered [token, head, part], so that neighbours read neighbours.
#include "attention/cuda/kv_write.h"

#include <algorithm>

#include "attention/kv_cache.h"
#include "metadata/index.h"
#include "tensor/cuda/element.cuh"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1056;

__device__ float factor_of(const float* scale, const KvCache& cache, int64_t head) {
  return scale == nullptr ? 1.0f : 1.0f / scale[head * cache.scale_stride];
}

// Io and Kv are void where they are known at run time only; then kPerItem is 1.
template <typename Io, typename Kv, int kPerItem>
__device__ void copy_part(const KvWriteParams& params, const void* from, int64_t source, int64_t to,
                          float factor) {
  if constexpr (kPerItem == 1) {
    store_element(params.cache.data, params.cache.dtype, to,
                  load_element(from, params.io_dtype, source) * factor);
  } else {
    float x[kPerItem];
    load_eight(static_cast<const Io*>(from) + source, x);
#pragma unroll
    for (int i = 0; i < kPerItem; ++i) x[i] *= factor;
    store_eight(static_cast<Kv*>(params.cache.data) + to, x);
  }
}

template <typename Io, typename Kv, int kPerItem>
__global__ void __launch_bounds__(kThreads)
    kv_write_kernel(const __grid_constant__ KvWriteParams params) {
  const KvCache& cache = params.cache;
  const auto parts = static_cast<uint32_t>(params.heads.head_dim / kPerItem);
  const auto heads = static_cast<uint32_t>(params.heads.num_kv_heads);
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  const auto num_items = static_cast<uint64_t>(params.step.counts->num_tokens) * heads * parts;
  for (uint64_t item = uint64_t{blockIdx.x} * kThreads + threadIdx.x; item < num_items;
       item += uint64_t{gridDim.x} * kThreads) {
    const uint64_t vector = item / parts;
    const int64_t element = static_cast<int64_t>(item - vector * parts) * kPerItem;
    const auto token = static_cast<int64_t>(vector / heads);
    const auto head = static_cast<int64_t>(vector % heads);
    const int64_t slot = params.step.slot_mapping[token];
    if (slot < 0) continue;
    const int64_t in_token = head * params.heads.head_dim + element;
    const int64_t to = key_offset_of_slot(cache, slot, head) + element;
    copy_part<Io, Kv, kPerItem>(params, params.k, token * params.k_stride + in_token, to,
                                factor_of(cache.key_scale, cache, head));
    copy_part<Io, Kv, kPerItem>(params, params.v, token * params.v_stride + in_token,
                                to + cache.value_offset, factor_of(cache.value_scale, cache, head));
  }
}

using Kernel = void (*)(KvWriteParams);

template <typename Io>
Kernel vector_kernel(DType kv_dtype) {
  return kv_dtype == DType::kFP8E4M3 ? kv_write_kernel<Io, __nv_fp8_e4m3, 8>
                                     : kv_write_kernel<Io, Io, 8>;
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

bool takes_vectors(const KvWriteParams& params) {
  const auto aligned = [](const void* data, int64_t stride) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % 8 == 0;
  };
  const DType kv = params.cache.dtype;
  return params.io_dtype != DType::kF32 && (kv == params.io_dtype || kv == DType::kFP8E4M3) &&
         params.heads.head_dim % 8 == 0 && aligned(params.k, params.k_stride) &&
         aligned(params.v, params.v_stride) && has_aligned_vectors(params.cache);
}

}  // namespace

Status launch_kv_write(cudaStream_t stream, const KvWriteParams& params, bool programmatic) {
  if (!is_float(params.io_dtype) ||
      !(is_float(params.cache.dtype) || params.cache.dtype == DType::kFP8E4M3)) {
    return invalid_argument(std::string("no KV write from ") + dtype_name(params.io_dtype) +
                            " to a cache of " + dtype_name(params.cache.dtype));
  }
  const bool vectors = takes_vectors(params);
  const Kernel kernel = !vectors ? kv_write_kernel<void, void, 1>
                        : params.io_dtype == DType::kBF16
                            ? vector_kernel<__nv_bfloat16>(params.cache.dtype)
                            : vector_kernel<__half>(params.cache.dtype);
  const int64_t max_items = int64_t{params.step.limits.max_tokens} * params.heads.num_kv_heads *
                            params.heads.head_dim / (vectors ? 8 : 1);
  const int64_t num_blocks =
      std::clamp((max_items + kThreads - 1) / kThreads, int64_t{1}, kMaxBlocks);
  return launch_kernel(stream,
                       {.grid = dim3(static_cast<uint32_t>(num_blocks)),
                        .block = kThreads,
                        .programmatic = programmatic},
                       "launch of kv_write", kernel, params);
}

}  // namespace headrace::attention
