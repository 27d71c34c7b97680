// SPDX-License-Identifier: Apache-2.0
#include "ops/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "ops/philox.h"
#include "tests/support/scale.h"

namespace headrace::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int32_t sample(const std::vector<float>& logits, const RowSampling& sampling, int32_t draft = 0) {
  std::vector<int32_t> scratch;
  return sample_token(logits.data(), static_cast<int64_t>(logits.size()), sampling, draft, scratch);
}

// How often each token comes in `draws` output positions.
std::vector<int> histogram(const std::vector<float>& logits, RowSampling sampling, int draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    sampling.output_position = i;
    ++counts[static_cast<size_t>(sample(logits, sampling))];
  }
  return counts;
}

// Pearson's statistic; tokens without probability must not have come at all.
double chi_square(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  double total = 0.0;
  for (int count : counts) total += count;
  double statistic = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0.0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    const double expected = probabilities[i] * total;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return statistic;
}

// The known answers published with the generator.
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(SamplingUniform, IsInsideTheUnitIntervalAndEven) {
  constexpr int kBins = 64;
  const int draws = test::scaled(64000);
  std::vector<int> counts(kBins);
  for (int i = 0; i < draws; ++i) {
    const double u = sampling_uniform(42, 0, static_cast<uint32_t>(i));
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<size_t>(u * kBins)];
  }
  // 63 degrees of freedom: above 120 once in 10^5 seeds.
  EXPECT_LT(chi_square(counts, std::vector<double>(kBins, 1.0 / kBins)), 120.0);
}

TEST(SamplingUniform, EveryArgumentCounts) {
  std::set<double> values;
  for (uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (uint32_t choice : {0u, 1u}) {
      for (uint32_t position : {0u, 1u, 2u})
        values.insert(sampling_uniform(seed, choice, position));
    }
  }
  EXPECT_EQ(values.size(), 18u);
}

TEST(Greedy, TakesTheLowestIdOfTheBest) {
  EXPECT_EQ(sample({1.0f, 3.0f, 3.0f, 2.0f}, {}), 1);
  EXPECT_EQ(sample({-5e5f, -6e5f}, {}), 0);
  EXPECT_EQ(sample({-0.0f, 0.0f}, {}), 0);
  EXPECT_EQ(sample({7.0f}, {}), 0);
}

TEST(Greedy, NanNeverWins) {
  EXPECT_EQ(sample({kNan, 1.0f, kNan}, {}), 1);
  EXPECT_EQ(sample({kNan, -kInf, -3.0f}, {}), 2);
  EXPECT_EQ(sample({kNan, kNan}, {}), kNoUsableToken);
  EXPECT_EQ(sample({kNan, -kInf}, {}), kNoUsableToken);
}

TEST(Sampling, OddLogitsGiveAnIdInRange) {
  RowSampling sampling{.temperature = 0.7f, .top_p = 0.9f, .top_k = 3};
  EXPECT_EQ(sample({kNan, kNan, kNan, kNan}, sampling), kNoUsableToken);
  EXPECT_EQ(sample({-kInf, -kInf, kNan, -kInf}, sampling), kNoUsableToken);
  for (const std::vector<float>& logits :
       {std::vector<float>{kInf, 1.0f, kInf, kNan}, {-5e5f, -5e5f, 5e5f, 0.0f}, {3.0f}}) {
    for (int i = 0; i < 50; ++i) {
      sampling.output_position = i;
      const int32_t id = sample(logits, sampling);
      ASSERT_GE(id, 0);
      ASSERT_LT(id, static_cast<int32_t>(logits.size()));
    }
  }
  sampling.top_k = 0;
  const std::vector<int> counts = histogram({kNan, 1.0f, 1.5f, kNan}, sampling, 200);
  EXPECT_EQ(counts[0] + counts[3], 0);
}

TEST(Sampling, FollowsTheSoftmax) {
  const std::vector<float> logits{0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -20.0f};
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    std::vector<double> probabilities;
    double sum = 0.0;
    for (float logit : logits) sum += std::exp(logit / temperature);
    for (float logit : logits) probabilities.push_back(std::exp(logit / temperature) / sum);
    const auto counts =
        histogram(logits, {.temperature = temperature, .seed = 7}, test::scaled(20000));
    EXPECT_LT(chi_square(counts, probabilities), 30.0) << temperature;  // 5 degrees of freedom
  }
}

TEST(Sampling, TopKKeepsExactlyKWithTiesByTheLowestId) {
  const std::vector<float> logits{1.0f, 2.0f, 1.0f, 1.0f, 0.0f};
  const double e = std::exp(1.0);
  const auto counts = histogram(logits, {.temperature = 1.0f, .top_k = 2}, test::scaled(20000));
  EXPECT_LT(chi_square(counts, {1 / (1 + e), e / (1 + e), 0, 0, 0}), 20.0);
}

TEST(Sampling, TopPKeepsTheFewestThatReachP) {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits{std::log(0.2f), std::log(0.4f), std::log(0.1f), std::log(0.3f)};
  const int draws = test::scaled(20000);
  EXPECT_LT(chi_square(histogram(logits, {.temperature = 1.0f, .top_p = 0.65f}, draws),
                       {0, 4.0 / 7, 0, 3.0 / 7}),
            20.0);
  EXPECT_LT(chi_square(histogram(logits, {.temperature = 1.0f, .top_p = 0.75f}, draws),
                       {2.0 / 9, 4.0 / 9, 0, 3.0 / 9}),
            20.0);
  EXPECT_EQ(histogram(logits, {.temperature = 1.0f, .top_p = 1e-6f}, 100)[1], 100);
}

TEST(Sampling, TopPCountsWhatTopKLeft) {
  // After top_k = 3 the probabilities are 4/9, 3/9, 2/9: 0.75 is reached by two of them.
  const std::vector<float> logits{std::log(0.2f), std::log(0.4f), std::log(0.1f), std::log(0.3f)};
  const auto counts =
      histogram(logits, {.temperature = 1.0f, .top_p = 0.75f, .top_k = 3}, test::scaled(20000));
  EXPECT_LT(chi_square(counts, {0, 4.0 / 7, 0, 3.0 / 7}), 20.0);
}

// More candidates than one round of sorting brings.
TEST(Sampling, TopPOverAFlatDistribution) {
  const std::vector<float> logits(3000, 0.25f);
  const auto counts = histogram(logits, {.temperature = 1.0f, .top_p = 0.5f}, test::scaled(2000));
  for (size_t i = 1501; i < counts.size(); ++i) ASSERT_EQ(counts[i], 0) << i;
}

TEST(Sampling, DraftsAreLaterOutputPositions) {
  const std::vector<float> logits(1000, 0.0f);
  for (int32_t draft = 0; draft < 8; ++draft) {
    EXPECT_EQ(sample(logits, {.temperature = 1.0f, .seed = 3, .output_position = 10}, draft),
              sample(logits, {.temperature = 1.0f, .seed = 3, .output_position = 10 + draft}));
  }
}

}  // namespace
}  // namespace headrace::ops
