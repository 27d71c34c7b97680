// SPDX-License-Identifier: Apache-2.0
// What decode kernels are built, and why. One .cu file a line of element types and head dim:
//   decode_<io>_<kv>_d<D>.cu   bf16 and fp16 caches, and fp8 caches under either
//   D 64, 128, 256             Llama-like models have 64 or 128, Qwen3.5 and Qwen3-Next 256
// and in each file
//   1, 2, 4 tiles of 8 queries    decode up to group 8; group 9–16, verify rows; longer verify rows
//   tensor copies                 pages of 16 tokens and multiples
//   gather                        every other page size
// One combine kernel for each io type and D.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/cuda/combine_kernel.cuh"
#include "attention/cuda/decode_config.h"
#include "attention/cuda/decode_kernel.cuh"

namespace headrace::attention {

using DecodeFunction = void (*)(DecodeParams, KvTensorMaps);
using CombineFunction = void (*)(DecodeParams);

struct DecodeInstance {
  DecodeConfig config;
  DecodeFunction decode = nullptr;
  CombineFunction combine = nullptr;
  int32_t num_threads = 0;
  int32_t shared_bytes = 0;
};

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, __nv_bfloat16> ? DType::kBF16
                           : std::is_same_v<T, __half>      ? DType::kF16
                                                            : DType::kFP8E4M3;

template <typename Io, typename Kv, int kHeadDim, int kQueryTiles, KvLoader kLoader>
DecodeInstance decode_instance() {
  using Traits = DecodeTraits<Io, Kv, kHeadDim, kQueryTiles, kLoader>;
  return {
      .config = {.io_dtype = kDTypeOf<Io>,
                 .kv_dtype = kDTypeOf<Kv>,
                 .head_dim = kHeadDim,
                 .query_tiles = kQueryTiles,
                 .load = kLoader == KvLoader::kTensorCopy ? KvLoad::kTensorCopy : KvLoad::kGather},
      .decode = decode_kernel<Traits>,
      .combine = combine_kernel<Io, kHeadDim>,
      .num_threads = Traits::kThreads,
      .shared_bytes = Traits::kSharedBytes};
}

template <typename Io, typename Kv, int kHeadDim>
std::vector<DecodeInstance> decode_instances_of() {
  return {decode_instance<Io, Kv, kHeadDim, 1, KvLoader::kTensorCopy>(),
          decode_instance<Io, Kv, kHeadDim, 2, KvLoader::kTensorCopy>(),
          decode_instance<Io, Kv, kHeadDim, 4, KvLoader::kTensorCopy>(),
          decode_instance<Io, Kv, kHeadDim, 1, KvLoader::kGather>(),
          decode_instance<Io, Kv, kHeadDim, 2, KvLoader::kGather>(),
          decode_instance<Io, Kv, kHeadDim, 4, KvLoader::kGather>()};
}

std::vector<DecodeInstance> decode_bf16_bf16_d64();
std::vector<DecodeInstance> decode_bf16_bf16_d128();
std::vector<DecodeInstance> decode_bf16_bf16_d256();
std::vector<DecodeInstance> decode_fp16_fp16_d64();
std::vector<DecodeInstance> decode_fp16_fp16_d128();
std::vector<DecodeInstance> decode_fp16_fp16_d256();
std::vector<DecodeInstance> decode_bf16_fp8_d64();
std::vector<DecodeInstance> decode_bf16_fp8_d128();
std::vector<DecodeInstance> decode_bf16_fp8_d256();
std::vector<DecodeInstance> decode_fp16_fp8_d64();
std::vector<DecodeInstance> decode_fp16_fp8_d128();
std::vector<DecodeInstance> decode_fp16_fp8_d256();

}  // namespace headrace::attention
