// SPDX-License-Identifier: Apache-2.0
// Which prefill kernel is chosen, and what is left to the general path.
#include "attention/cuda/prefill_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace headrace::attention {
namespace {

// Two heads of D elements in pages of NHD, aligned as a caller would have them.
AttentionParams usual_params(int32_t head_dim, int32_t page_size) {
  AttentionParams params;
  params.heads = {.num_q_heads = 8, .num_kv_heads = 2, .head_dim = head_dim};
  params.io_dtype = DType::kBF16;
  params.q_stride = int64_t{8} * head_dim;
  params.out_stride = int64_t{8} * head_dim;
  params.scale = 0.125f;
  params.cache.dtype = DType::kBF16;
  params.cache.num_pages = 10;
  params.cache.page_size = page_size;
  params.cache.token_stride = int64_t{2} * head_dim;
  params.cache.head_stride = head_dim;
  params.cache.value_offset = page_size * params.cache.token_stride;
  params.cache.page_stride = 2 * params.cache.value_offset;
  return params;
}

std::string chosen(const AttentionParams& params) {
  const auto config = choose_prefill_kernel(params);
  return config.ok() ? config.value().to_string() : config.status().message();
}

TEST(PrefillConfig, PrintsWhatRuns) {
  AttentionParams params = usual_params(128, 16);
  EXPECT_EQ(chosen(params), "prefill bf16 d128, 128 queries x 176 keys, boxes of 16 tokens");
  params.soft_cap = 30.0f;
  params.io_dtype = params.cache.dtype = DType::kF16;
  EXPECT_EQ(chosen(params),
            "prefill fp16 d128, 128 queries x 176 keys, boxes of 16 tokens, soft cap");
  EXPECT_EQ(chosen(usual_params(64, 1024)),
            "prefill bf16 d64, 192 queries x 128 keys, boxes of 128 tokens");
  EXPECT_EQ(chosen(usual_params(256, 528)),
            "prefill bf16 d256, 128 queries x 80 keys, boxes of 16 tokens");
}

// A box lies in one page and in one tile, and is made of pieces of 8 tokens, one to a lane.
TEST(PrefillConfig, BoxesTileEveryPage) {
  for (const int32_t head_dim : {64, 128, 256}) {
    for (int32_t page_size = 8; page_size <= 1024; page_size += 8) {
      const auto config = choose_prefill_kernel(usual_params(head_dim, page_size));
      ASSERT_TRUE(config.ok()) << config.status().message();
      const int32_t box = config.value().box_tokens;
      EXPECT_EQ(page_size % box, 0);
      EXPECT_EQ(config.value().tile.keys % box, 0);
      EXPECT_EQ(box % 8, 0);
      EXPECT_LE(box / 8, 256);
      EXPECT_LE(config.value().tile.keys / box, 32);
    }
  }
}

TEST(PrefillConfig, SaysWhatItCannotRead) {
  const auto with = [](const std::function<void(AttentionParams&)>& change) {
    AttentionParams params = usual_params(128, 16);
    change(params);
    return chosen(params);
  };
  using Params = AttentionParams;
  EXPECT_EQ(with([](Params& p) { p.heads.head_dim = 96; }), "head_dim 96 is not 64, 128 or 256");
  EXPECT_EQ(with([](Params& p) { p.io_dtype = DType::kF32; }), "q of fp32");
  EXPECT_EQ(with([](Params& p) { p.cache.dtype = DType::kFP8E4M3; }),
            "a cache of fp8_e4m3 under q of bf16");
  EXPECT_EQ(with([](Params& p) { p.scale = 0.0f; }), "a scale that is not positive");
  EXPECT_EQ(with([](Params& p) { p.cache.page_size = 1; }), "page_size 1 is no multiple of 8");
  const std::string stride =
      "a stride that is no multiple of 16 bytes, or of 128 from head to head";
  EXPECT_EQ(with([](Params& p) { p.cache.token_stride += 4; }), stride);
  EXPECT_EQ(with([](Params& p) { p.cache.page_stride += 4; }), stride);
  EXPECT_EQ(with([](Params& p) { p.cache.value_offset += 4; }), stride);
  EXPECT_EQ(with([](Params& p) { p.cache.head_stride += 8; }), stride);
  EXPECT_EQ(with([](Params& p) { p.q_stride += 4; }), stride);
  const std::string alignment = "q, cache or out not aligned";
  EXPECT_EQ(with([](Params& p) { p.out_stride += 1; }), alignment);
  EXPECT_EQ(with([](Params& p) { p.q = reinterpret_cast<const void*>(8); }), alignment);
}

}  // namespace
}  // namespace headrace::attention
