// SPDX-License-Identifier: Apache-2.0
#include "gdn/cuda/prefill.h"

#include "metadata/arena.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/device_properties.h"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/tensor_map.h"

namespace headrace::gdn {
namespace {

constexpr uint32_t kSlice = 64;  // elements of 16 bits: 128 bytes

// [heads, dim / 64, T, 64], boxes of 64 tokens and `box_slices` slices of a head.
Result<CUtensorMap> head_map(const void* data, DType dtype, const HeadStride& stride,
                             int32_t num_heads, int32_t dim, int32_t max_tokens,
                             uint32_t box_slices) {
  const auto token_bytes = static_cast<uint64_t>(stride.token) * 2;
  TensorMapShape shape;
  shape.dtype = dtype;
  shape.rank = 5;
  shape.sizes = {kSlice, static_cast<uint64_t>(max_tokens), static_cast<uint64_t>(dim) / kSlice,
                 static_cast<uint64_t>(num_heads), 1};
  shape.strides = {0, token_bytes, kSlice * 2, static_cast<uint64_t>(stride.head) * 2, token_bytes};
  shape.box = {kSlice, static_cast<uint32_t>(metadata::kChunkTokens), box_slices, 1, 1};
  return encode_tensor_map(data, shape);
}

}  // namespace

int64_t prefill_workspace_bytes(const GdnShape& shape, const metadata::Limits& limits) {
  return int64_t{metadata::max_chunks(limits)} * shape.num_v_heads *
         static_cast<int64_t>(sizeof(ChunkTerms));
}

Result<PrefillLaunch> prepare_prefill(const DeltaRuleParams& params) {
  HEADRACE_ASSIGN_OR_RETURN(const GpuProperties gpu, gpu_properties());
  PrefillLaunch launch;
  HEADRACE_ASSIGN_OR_RETURN(launch.config, choose_prefill_kernel(params, gpu.num_multiprocessors));
  const GdnShape& shape = params.shape;
  const int32_t max_tokens = params.step.limits.max_tokens;
  PrefillKernelParams& made = launch.params;
  HEADRACE_ASSIGN_OR_RETURN(made.query_map,
                            head_map(params.q, params.dtype, params.q_stride, shape.num_k_heads,
                                     shape.k_dim, max_tokens, shape.k_dim / kSlice));
  HEADRACE_ASSIGN_OR_RETURN(made.key_map,
                            head_map(params.k, params.dtype, params.k_stride, shape.num_k_heads,
                                     shape.k_dim, max_tokens, shape.k_dim / kSlice));
  HEADRACE_ASSIGN_OR_RETURN(made.value_map,
                            head_map(params.v, params.dtype, params.v_stride, shape.num_v_heads,
                                     shape.v_dim, max_tokens, 1));
  made.num_k_heads = shape.num_k_heads;
  made.num_v_heads = shape.num_v_heads;
  made.group_size = shape.num_v_heads / shape.num_k_heads;
  made.gate = params.gate;
  made.gate_format = params.gate_format;
  made.beta = params.beta;
  made.terms = reinterpret_cast<ChunkTerms*>(params.workspace);
  made.out = params.out;
  made.out_stride = params.out_stride;
  made.slots = params.slots;
  made.layout = slot_layout(shape, params.slots);
  made.step = params.step;

  launch.instance = params.dtype == DType::kBF16 ? prefill_bf16_d128() : prefill_fp16_d128();
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(launch.instance.terms,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     launch.instance.terms_shared_bytes));
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(launch.instance.scan,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     launch.instance.scan_shared_bytes));
  return launch;
}

Status launch_prefill(cudaStream_t stream, const PrefillLaunch& launch, bool programmatic) {
  const PrefillInstance& instance = launch.instance;
  HEADRACE_RETURN_IF_ERROR(
      launch_kernel(stream,
                    {.grid = dim3(launch.config.terms_blocks),
                     .block = dim3(instance.terms_threads),
                     .shared_bytes = static_cast<size_t>(instance.terms_shared_bytes),
                     .programmatic = programmatic},
                    "launch of GDN prefill's terms", instance.terms, launch.params));
  return launch_kernel(stream,
                       {.grid = dim3(launch.config.scan_blocks),
                        .block = dim3(instance.scan_threads),
                        .shared_bytes = static_cast<size_t>(instance.scan_shared_bytes),
                        .programmatic = true},
                       "launch of GDN prefill's scan", instance.scan, launch.params);
}

}  // namespace headrace::gdn
