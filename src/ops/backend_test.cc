// SPDX-License-Identifier: Apache-2.0
#include "ops/backend.h"

#include <gtest/gtest.h>

namespace headrace::ops {
namespace {

TEST(CpuBackend, HasEveryOp) {
  const Backend& backend = cpu_backend();
  EXPECT_STREQ(backend.name, "cpu");
  EXPECT_EQ(backend.device, Device::kCpu);
  EXPECT_NE(backend.prepare_weight, nullptr);
  EXPECT_NE(backend.embedding, nullptr);
  EXPECT_NE(backend.add_rms_norm, nullptr);
  EXPECT_NE(backend.linear, nullptr);
  EXPECT_NE(backend.qkv_rope_write, nullptr);
  EXPECT_NE(backend.attention, nullptr);
  EXPECT_NE(backend.head_gate, nullptr);
  EXPECT_NE(backend.gdn_mix, nullptr);
  EXPECT_NE(backend.swiglu, nullptr);
  EXPECT_NE(backend.gather_logit_rows, nullptr);
  EXPECT_NE(backend.sample, nullptr);
}

}  // namespace
}  // namespace headrace::ops
