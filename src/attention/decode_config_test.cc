// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "attention/cuda/decode_config.h"

namespace headrace::attention {
namespace {

alignas(16) char memory[16];

AttentionParams params_of(int32_t num_q_heads, int32_t num_kv_heads, int32_t head_dim) {
  AttentionParams params;
  params.heads = {num_q_heads, num_kv_heads, head_dim};
  params.io_dtype = DType::kBF16;
  params.q = memory;
  params.q_stride = num_q_heads * head_dim;
  params.out = memory;
  params.out_stride = params.q_stride;
  params.cache = {.data = memory, .dtype = DType::kBF16, .num_pages = 2, .page_size = 16};
  params.cache.head_stride = head_dim;
  params.cache.token_stride = num_kv_heads * head_dim;
  params.cache.value_offset = 16 * params.cache.token_stride;
  params.cache.page_stride = 2 * params.cache.value_offset;
  return params;
}

TEST(DecodeConfig, FollowsQueriesAndPages) {
  AttentionParams params = params_of(32, 8, 128);
  const auto tiles = [&](int32_t query_len) {
    return choose_decode(params, query_len).value().query_tiles;
  };
  EXPECT_EQ(tiles(1), 1);
  EXPECT_EQ(tiles(2), 1);
  EXPECT_EQ(tiles(3), 2);
  EXPECT_EQ(tiles(4), 2);
  EXPECT_EQ(tiles(5), 4);
  EXPECT_EQ(tiles(16), 4);
  for (const int32_t page_size : {16, 48, 528, 1024}) {
    params.cache.page_size = page_size;
    EXPECT_EQ(choose_decode(params, 1).value().load, KvLoad::kTensorCopy) << page_size;
  }
  for (const int32_t page_size : {1, 8, 24}) {
    params.cache.page_size = page_size;
    EXPECT_EQ(choose_decode(params, 1).value().load, KvLoad::kGather) << page_size;
  }
  EXPECT_EQ(to_string(choose_decode(params, 4).value()),
            "decode bf16, KV bf16, D 128, 16 queries a pass, gather");
}

TEST(DecodeConfig, RefusesWhatIsReserved) {
  AttentionParams params = params_of(32, 8, 128);
  params.shared_prefix = memory;
  EXPECT_EQ(choose_decode(params, 1).status().message(), kReservedIsSet);
  params.shared_prefix = nullptr;
  const uint32_t mask = 0;
  params.tree_mask = &mask;
  EXPECT_EQ(choose_decode(params, 1).status().message(), kReservedIsSet);
}

TEST(DecodeConfig, RefusesWithAReason) {
  const AttentionParams good = params_of(16, 2, 256);
  ASSERT_TRUE(choose_decode(good, 1).ok());
  const auto reason = [](const AttentionParams& params) {
    const auto config = choose_decode(params, 1);
    EXPECT_EQ(config.status().code(), StatusCode::kUnsupported);
    return config.status().message();
  };
  AttentionParams params = good;
  params.io_dtype = DType::kF32;
  EXPECT_NE(reason(params).find("not fp32"), std::string::npos);
  params = good;
  params.cache.dtype = DType::kF16;
  EXPECT_NE(reason(params).find("not fp16"), std::string::npos);
  params = good;
  params.heads.head_dim = 80;
  EXPECT_NE(reason(params).find("not 80"), std::string::npos);
  params = good;
  params.cache.token_stride += 4;
  EXPECT_NE(reason(params).find("16-byte aligned"), std::string::npos);
  params = good;
  params.q_stride += 1;
  EXPECT_NE(reason(params).find("16-byte aligned"), std::string::npos);
}

TEST(DecodeConfig, WorkersFillTheDevice) {
  EXPECT_EQ(decode_workers(132, 8), 33);
  EXPECT_EQ(decode_workers(132, 2), 132);
  EXPECT_EQ(decode_workers(132, 3), 88);
  EXPECT_EQ(decode_workers(4, 16), 1);
}

}  // namespace
}  // namespace headrace::attention
