// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/qkv_rope_write_config.h"

#include <gtest/gtest.h>

namespace headrace::ops {
namespace {

alignas(16) char memory[32];

QkvRopeWriteParams params_of(attention::HeadShape heads) {
  QkvRopeWriteParams params;
  params.heads = heads;
  params.io_dtype = DType::kBF16;
  params.projection = memory;
  params.projection_stride = (heads.num_q_heads + 2 * heads.num_kv_heads) * heads.head_dim;
  params.rope.rotary_dim = heads.head_dim;
  params.q_out = memory;
  params.cache = {.data = memory, .dtype = DType::kBF16, .num_pages = 2, .page_size = 16};
  params.cache.head_stride = heads.head_dim;
  params.cache.token_stride = heads.num_kv_heads * heads.head_dim;
  params.cache.value_offset = 16 * params.cache.token_stride;
  params.cache.page_stride = 2 * params.cache.value_offset;
  params.step.limits.max_tokens = 64;
  return params;
}

TEST(QkvRopeWriteConfig, CoversAllHeadsAndTokens) {
  for (const int32_t head_dim : {64, 128, 256, 96}) {
    for (const int32_t max_tokens : {1, 64, 100000}) {
      QkvRopeWriteParams params = params_of({32, 8, head_dim});
      params.step.limits.max_tokens = max_tokens;
      const QkvRopeWriteConfig config = choose_qkv_rope_write(params).value();
      EXPECT_EQ(config.vectors, head_dim != 96);
      EXPECT_GE(config.heads_per_block * config.blocks_per_token, 48);
      EXPECT_GE(config.num_token_blocks, 1);
      EXPECT_LE(config.num_token_blocks, max_tokens);
      EXPECT_LE(config.num_token_blocks * config.blocks_per_token, 1056);
    }
  }
  EXPECT_EQ(choose_qkv_rope_write(params_of({32, 8, 128})).value().to_string(),
            "qkv_rope_write by vectors, 16 heads a block, grid 64 x 3");
}

TEST(QkvRopeWriteConfig, VectorsNeedTypesAndAlignment) {
  const auto vectors = [](auto change) {
    QkvRopeWriteParams params = params_of({8, 2, 128});
    change(params);
    return choose_qkv_rope_write(params).value().vectors;
  };
  EXPECT_TRUE(vectors([](auto&) {}));
  EXPECT_TRUE(vectors([](auto& p) { p.cache.dtype = DType::kFP8E4M3; }));
  EXPECT_TRUE(vectors([](auto& p) { p.rope.rotary_dim = 32; }));
  EXPECT_FALSE(vectors([](auto& p) { p.rope.rotary_dim = 24; }));
  EXPECT_FALSE(vectors([](auto& p) { p.io_dtype = DType::kF16; }));
  EXPECT_FALSE(vectors([](auto& p) { p.projection_stride += 4; }));
  EXPECT_FALSE(vectors([](auto& p) { p.projection = memory + 2; }));
  EXPECT_FALSE(vectors([](auto& p) { p.q_out = memory + 2; }));
  EXPECT_FALSE(vectors([](auto& p) { p.cache.token_stride += 4; }));
}

TEST(QkvRopeWriteConfig, RefusesWithAReason) {
  const auto message = [](auto change) {
    QkvRopeWriteParams params = params_of({8, 2, 128});
    change(params);
    return choose_qkv_rope_write(params).status().message();
  };
  EXPECT_EQ(message([](auto& p) { p.rope.rotary_dim = 130; }),
            "rotary dim 130 with head dim 128; it is even and no larger");
  EXPECT_EQ(message([](auto& p) { p.io_dtype = DType::kI32; }),
            "a projection of int32; fp32, bf16 and fp16 are taken");
  EXPECT_EQ(message([](auto& p) { p.cache.dtype = DType::kI32; }), "no KV cache of int32");
  EXPECT_NE(message([](auto& p) { p.heads.head_dim = 513; }), "");
}

}  // namespace
}  // namespace headrace::ops
