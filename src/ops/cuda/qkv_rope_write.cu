// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/qkv_rope_write.h"

#include "ops/cuda/qkv_rope_write_kernel.cuh"
#include "tensor/cuda/launch.h"

namespace headrace::ops {
namespace {

using Kernel = void (*)(QkvRopeWriteParams, bool);

// A warp a head, an element a lane at a time: any types, shapes and strides. For correctness.
__global__ void __launch_bounds__(kQkvRopeWriteThreads)
    qkv_rope_write_by_elements(const __grid_constant__ QkvRopeWriteParams params, bool) {
  constexpr int kWarps = kQkvRopeWriteThreads / 32;
  constexpr int kMaxHeadDim = 512;
  __shared__ float vectors[kWarps][kMaxHeadDim];
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const QkvHead head{static_cast<int32_t>(blockIdx.y) * kWarps + warp, params};
  const int32_t head_dim = params.heads.head_dim;
  const int32_t half = params.rope.rotary_dim / 2;
  float* x = vectors[warp];
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  if (!head.exists()) return;
  const float* norm_weight = head.norm_weight();
  for (auto token = static_cast<int32_t>(blockIdx.x); token < params.step.counts->num_tokens;
       token += static_cast<int32_t>(gridDim.x)) {
    const int64_t from = token * params.projection_stride + head.source();
    float squares = 0.0f;
    for (int32_t d = lane; d < head_dim; d += 32) {
      x[d] = load_element(params.projection, params.io_dtype, from + d);
      squares += x[d] * x[d];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    }
    if (norm_weight != nullptr) {
      const float factor = rsqrtf(squares / static_cast<float>(head_dim) + params.norm_eps);
      for (int32_t d = lane; d < head_dim; d += 32) {
        x[d] *= factor * (norm_weight[d] + params.norm_weight_offset);
      }
    }
    __syncwarp();
    if (!head.is_value()) {
      for (int32_t i = lane; i < half; i += 32) {
        const float2 rotation = rotation_of(params.rope, params.step.token_position[token], i);
        const float first = x[i];
        const float second = x[i + half];
        x[i] = first * rotation.x - second * rotation.y;
        x[i + half] = second * rotation.x + first * rotation.y;
      }
    }
    __syncwarp();
    const int64_t slot = params.step.slot_mapping[token];
    for (int32_t d = lane; d < head_dim; d += 32) {
      if (head.is_query()) {
        const int64_t vector = int64_t{token} * params.heads.num_q_heads + head.number;
        store_element(params.q_out, params.io_dtype, vector * head_dim + d, x[d]);
      } else if (slot >= 0) {
        store_element(params.cache.data, params.cache.dtype, head.cache_offset(slot) + d,
                      x[d] * head.cache_factor());
      }
    }
    __syncwarp();
  }
}

template <typename Io, typename Kv>
Kernel vector_kernel(int32_t head_dim) {
  switch (head_dim) {
    case 64:
      return qkv_rope_write_kernel<Io, Kv, 64>;
    case 128:
      return qkv_rope_write_kernel<Io, Kv, 128>;
    default:
      return qkv_rope_write_kernel<Io, Kv, 256>;
  }
}

template <typename Io>
Kernel vector_kernel(const QkvRopeWriteParams& params) {
  return params.cache.dtype == DType::kFP8E4M3
             ? vector_kernel<Io, __nv_fp8_e4m3>(params.heads.head_dim)
             : vector_kernel<Io, Io>(params.heads.head_dim);
}

}  // namespace

Result<QkvRopeWriteLaunch> prepare_qkv_rope_write(const QkvRopeWriteParams& params,
                                                  const QkvRopeWriteOptions& options) {
  QkvRopeWriteLaunch launch;
  HEADRACE_ASSIGN_OR_RETURN(launch.config, choose_qkv_rope_write(params));
  launch.params = params;
  launch.options = options;
  launch.options.early_metadata = options.programmatic && options.early_metadata;
  launch.kernel = !launch.config.vectors            ? qkv_rope_write_by_elements
                  : params.io_dtype == DType::kBF16 ? vector_kernel<__nv_bfloat16>(params)
                                                    : vector_kernel<__half>(params);
  launch.grid = dim3(launch.config.num_token_blocks, launch.config.blocks_per_token);
  return launch;
}

Status launch_qkv_rope_write(cudaStream_t stream, const QkvRopeWriteLaunch& launch) {
  return launch_kernel(stream,
                       {.grid = launch.grid,
                        .block = kQkvRopeWriteThreads,
                        .programmatic = launch.options.programmatic},
                       "launch of qkv_rope_write", launch.kernel, launch.params,
                       launch.options.early_metadata);
}

}  // namespace headrace::ops
