// SPDX-License-Identifier: Apache-2.0
// Which general kernel is chosen, and what is left to the plain path.
#include "attention/cuda/general_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace headrace::attention {
namespace {

constexpr int32_t kHopperBytes = 227 * 1024;

std::string chosen(const std::function<void(AttentionParams&)>& change,
                   int32_t max_shared_bytes = kHopperBytes) {
  AttentionParams params;
  params.heads = {.num_q_heads = 8, .num_kv_heads = 2, .head_dim = 128};
  params.io_dtype = DType::kBF16;
  params.cache.dtype = DType::kBF16;
  params.cache.page_size = 5;
  params.cache.head_stride = 128;
  params.cache.token_stride = 256;
  params.cache.value_offset = 5 * 256;
  params.cache.page_stride = 10 * 256;
  change(params);
  const auto config = choose_general(params, max_shared_bytes);
  return config.ok() ? to_string(config.value()) : config.status().message();
}

TEST(GeneralConfig, PrintsWhatRuns) {
  using Params = AttentionParams;
  const std::string elements = "general bf16, KV bf16, D 128, 128 queries x 64 keys, element loads";
  EXPECT_EQ(chosen([](Params&) {}),
            "general bf16, KV bf16, D 128, 128 queries x 64 keys, async copies");
  EXPECT_EQ(chosen([](Params& p) { p.cache.token_stride += 4; }), elements);
  EXPECT_EQ(chosen([](Params& p) { p.cache.head_stride += 4; }), elements);
  EXPECT_EQ(chosen([](Params& p) { p.cache.page_stride += 4; }), elements);
  EXPECT_EQ(chosen([](Params& p) { p.cache.value_offset += 4; }), elements);
  EXPECT_EQ(chosen([](Params& p) { p.cache.data = reinterpret_cast<void*>(8); }), elements);
  // Strides count elements: 8 of them are 16 bytes of bf16, but not of fp8.
  EXPECT_EQ(chosen([](Params& p) { p.cache.token_stride += 8; }),
            "general bf16, KV bf16, D 128, 128 queries x 64 keys, async copies");
  EXPECT_EQ(chosen([](Params& p) {
              p.io_dtype = DType::kF16;
              p.cache.dtype = DType::kFP8E4M3;
              p.cache.token_stride += 8;
            }),
            "general fp16, KV fp8_e4m3, D 128, 128 queries x 64 keys, element loads");
}

TEST(GeneralConfig, RefusesWhatIsReserved) {
  const uint32_t mask = 0;
  EXPECT_EQ(chosen([&](AttentionParams& p) { p.tree_mask = &mask; }), kReservedIsSet);
}

TEST(GeneralConfig, FitsTheSharedMemory) {
  const auto head_dim_256 = [](AttentionParams& p) {
    p.heads.head_dim = 256;
    p.cache.head_stride = 256;
  };
  EXPECT_EQ(chosen(head_dim_256),
            "general bf16, KV bf16, D 256, 128 queries x 64 keys, async copies");
  EXPECT_EQ(chosen(head_dim_256, 99 * 1024),
            "general bf16, KV bf16, D 256, 64 queries x 32 keys, async copies");
}

TEST(GeneralConfig, SaysWhatItDoesNotTake) {
  using Params = AttentionParams;
  EXPECT_EQ(chosen([](Params& p) { p.io_dtype = DType::kF32; }),
            "the general kernels take bf16 and fp16 queries, not fp32");
  EXPECT_EQ(chosen([](Params& p) { p.cache.dtype = DType::kF16; }),
            "the general kernels take a KV cache of bf16 or fp8_e4m3, not fp16");
  EXPECT_EQ(chosen([](Params& p) { p.heads.head_dim = 96; }),
            "the general kernels have head dims 64, 128 and 256, not 96");
}

}  // namespace
}  // namespace headrace::attention
