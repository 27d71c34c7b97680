// SPDX-License-Identifier: Apache-2.0
#include "attention/merge_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/convert.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct State {
  std::vector<float> o;
  float lse = kNone;
};

State merge(const State& a, const State& b) {
  State merged{std::vector<float>(a.o.size()), 0.0f};
  const Status status = merge_state_on_host({.o_a = a.o.data(),
                                             .lse_a = &a.lse,
                                             .o_b = b.o.data(),
                                             .lse_b = &b.lse,
                                             .o = merged.o.data(),
                                             .lse = &merged.lse,
                                             .num_vectors = 1,
                                             .head_dim = static_cast<int32_t>(a.o.size())});
  EXPECT_TRUE(status.ok()) << status.message();
  return merged;
}

// Softmax-weighted mean of keys [begin, end) in fp64.
State attend(const std::vector<double>& scores, const std::vector<std::vector<double>>& values,
             size_t begin, size_t end) {
  double max = -std::numeric_limits<double>::infinity();
  for (size_t i = begin; i < end; ++i) max = std::max(max, scores[i]);
  double sum = 0.0;
  std::vector<double> o(values[0].size());
  for (size_t i = begin; i < end; ++i) {
    sum += std::exp(scores[i] - max);
    for (size_t d = 0; d < o.size(); ++d) o[d] += std::exp(scores[i] - max) * values[i][d];
  }
  State state;
  for (double x : o) state.o.push_back(static_cast<float>(sum > 0 ? x / sum : 0.0));
  state.lse = sum > 0 ? static_cast<float>(max + std::log(sum)) : kNone;
  return state;
}

TEST(MergeState, OfTwoPartsIsTheWhole) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (double shift : {0.0, -5e5, 300.0}) {
    std::vector<double> scores(20);
    std::vector<std::vector<double>> values(20, std::vector<double>(5));
    for (double& s : scores) s = 5 * normal(random) + shift;
    for (auto& v : values) {
      for (double& x : v) x = normal(random);
    }
    const State whole = attend(scores, values, 0, 20);
    for (size_t cut = 0; cut <= 20; ++cut) {
      const State merged = merge(attend(scores, values, 0, cut), attend(scores, values, cut, 20));
      // At a large |lse| one ulp of it moves the weights.
      const double tolerance = shift == -5e5 ? 0.1 : 1e-4;
      EXPECT_NEAR(merged.lse, whole.lse, 1e-6 * (1 + std::abs(shift)));
      for (size_t d = 0; d < 5; ++d) EXPECT_NEAR(merged.o[d], whole.o[d], tolerance);
    }
  }
}

TEST(MergeState, AnEmptyPartIsIgnoredWhateverItHolds) {
  const State full{{1.0f, -2.0f}, 0.7f};
  const State empty{{kNan, kNan}, kNone};
  for (const State& merged : {merge(full, empty), merge(empty, full)}) {
    EXPECT_EQ(merged.o, full.o);
    EXPECT_EQ(merged.lse, full.lse);
  }
}

TEST(MergeState, TwoEmptyPartsGiveZero) {
  const State empty{{kNan, kNan}, kNone};
  const State merged = merge(empty, empty);
  EXPECT_EQ(merged.o, (std::vector<float>{0.0f, 0.0f}));
  EXPECT_EQ(merged.lse, kNone);
}

TEST(MergeState, InPlaceAndManyVectors) {
  std::vector<float> a{1, 2, 3, 4};
  std::vector<float> lse_a{0.0f, 1.0f};
  const std::vector<float> b{5, 6, 7, 8};
  const std::vector<float> lse_b{0.0f, kNone};
  MergeStateParams params{.o_a = a.data(),
                          .lse_a = lse_a.data(),
                          .o_b = b.data(),
                          .lse_b = lse_b.data(),
                          .o = a.data(),
                          .lse = lse_a.data(),
                          .num_vectors = 2,
                          .head_dim = 2};
  EXPECT_TRUE(merge_state_on_host(params).ok());
  EXPECT_EQ(a, (std::vector<float>{3, 4, 3, 4}));
  EXPECT_FLOAT_EQ(lse_a[0], std::log(2.0f));
  EXPECT_EQ(lse_a[1], 1.0f);
}

TEST(MergeState, SixteenBitTypesAndLongVectors) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<float> values(130);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 64.0f;
    std::vector<uint16_t> a(130);
    narrow(values.data(), 130, a.data(), dtype, 0);
    const std::vector<uint16_t> b(130);
    const float lse = 2.0f;
    std::vector<uint16_t> o(130);
    EXPECT_TRUE(merge_state_on_host({.o_a = a.data(),
                                     .lse_a = &lse,
                                     .o_b = b.data(),
                                     .lse_b = &lse,
                                     .o = o.data(),
                                     .dtype = dtype,
                                     .num_vectors = 1,
                                     .head_dim = 130})
                    .ok());
    widen(o.data(), dtype, 0, 130, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(i) / 128.0f) << i;
    }
  }
}

TEST(MergeState, SaysWhatIsWrong) {
  float x = 0.0f;
  MergeStateParams params{.o_a = &x, .lse_a = &x, .o_b = &x, .o = &x, .num_vectors = 1};
  params.head_dim = 1;
  EXPECT_EQ(merge_state_on_host(params).code(), StatusCode::kInvalidArgument);
  params.lse_b = &x;
  params.dtype = DType::kI32;
  EXPECT_EQ(merge_state_on_host(params).code(), StatusCode::kInvalidArgument);
  params.dtype = DType::kF32;
  EXPECT_TRUE(merge_state_on_host(params).ok());
  params.head_dim = 0;
  EXPECT_EQ(merge_state_on_host(params).code(), StatusCode::kInvalidArgument);
#ifndef HEADRACE_CUDA
  params.head_dim = 1;
  EXPECT_EQ(merge_state_on_device(params, nullptr).code(), StatusCode::kUnsupported);
#endif
}

}  // namespace
}  // namespace headrace::attention
