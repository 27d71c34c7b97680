// SPDX-License-Identifier: Apache-2.0
#include "headrace/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "headrace/sampling.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

TEST(EngineRequestTest, SamplingOutOfRangeIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(validate(SamplingParams{}).ok());
  EXPECT_TRUE(validate({.temperature = 2.5f, .top_k = 1, .top_p = 1e-6f}).ok());
  for (const float bad : {-0.1f, nan, infinity}) {
    EXPECT_THAT(validate({.temperature = bad}).message(), HasSubstr("--temperature")) << bad;
  }
  for (const float bad : {0.0f, -1.0f, 1.001f, nan, infinity}) {
    EXPECT_THAT(validate({.top_p = bad}).message(), HasSubstr("--top-p")) << bad;
  }
  EXPECT_THAT(validate({.top_k = -1}).message(), HasSubstr("--top-k"));
  EXPECT_EQ(validate({.top_k = -1}).code(), StatusCode::kInvalidArgument);
}

TEST(EngineRequestTest, FinishReasonsHaveNames) {
  EXPECT_STREQ(finish_reason_name(FinishReason::kNone), "");
  EXPECT_STREQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace headrace
