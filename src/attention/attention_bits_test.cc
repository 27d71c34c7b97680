// SPDX-License-Identifier: Apache-2.0
// What a token gets is the same to the bit whatever stands beside it, however its row is chunked,
// wherever its keys lie, and however many threads compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "attention/attention_test_problem.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

class AttentionBits : public testing::TestWithParam<NamedKernel> {
 protected:
  Output run(Problem& problem) { return problem.run(GetParam()); }
};

TEST_P(AttentionBits, EqualAcrossPageSizesLayoutsAndThreads) {
  Shape shape{.heads = {6, 2, 64}, .window = 90, .soft_cap = 20.0f, .sinks = true};
  Problem base(shape, mixed_batch());
  const Output wanted = run(base);
  for (int32_t page_size : {1, 8, 16, 64, 256}) {
    for (Layout layout : {Layout::kNhd, Layout::kHnd}) {
      for (int threads : {1, 2, 3}) {
        shape.page_size = page_size;
        shape.layout = layout;
        shape.stride_padding = threads;
        Problem other(shape, mixed_batch(), {.seed = 9, .num_threads = threads});
        const Output output = run(other);
        ASSERT_EQ(output.out, wanted.out) << page_size << " " << threads;
        ASSERT_EQ(output.lse, wanted.lse) << page_size << " " << threads;
      }
    }
  }
}

TEST_P(AttentionBits, EqualAcrossBatchesAndRowOrder) {
  const Shape shape{.heads = {5, 1, 128}, .dtype = DType::kBF16};
  std::vector<Sequence> batch = mixed_batch();
  const size_t token_size = 5 * 128;
  const auto alone = [&](const Sequence& sequence) {
    Problem problem(shape, {sequence});
    return run(problem).out;
  };
  std::mt19937 random(11);
  for (int round = 0; round < 4; ++round) {
    std::shuffle(batch.begin(), batch.end(), random);
    Problem together(shape, batch, {.seed = static_cast<uint64_t>(round), .num_threads = 2});
    const Output output = run(together);
    for (size_t r = 0; r < batch.size(); ++r) {
      if (batch[r].row.query_len == 0) continue;
      const std::vector<float> wanted = alone(batch[r]);
      const auto begin = output.out.begin() + together.step().view().query_start_i64[r] *
                                                  static_cast<std::ptrdiff_t>(token_size);
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), begin)) << "row " << r;
    }
  }
}

TEST_P(AttentionBits, EqualAcrossChunks) {
  const Shape shape{.heads = {4, 2, 64}, .window = 100};
  constexpr int32_t kLength = 200;
  Problem whole(shape, {prefill(1, kLength)});
  const std::vector<float> wanted = run(whole).out;
  for (int32_t chunk : {1, 7, 64, 65, 128}) {
    for (int32_t begin = 0; begin < kLength; begin += chunk) {
      const int32_t length = std::min(chunk, kLength - begin);
      Problem part(shape, {prefill(1, length, begin)});
      const std::vector<float> out = run(part).out;
      ASSERT_TRUE(std::equal(out.begin(), out.end(), wanted.begin() + begin * 4 * 64))
          << chunk << " at " << begin;
    }
  }
}

// A later token that is not a number stays where it is.
TEST_P(AttentionBits, LaterTokensDoNotReachEarlierOnes) {
  const Shape shape{.heads = {3, 1, 64}};
  Problem clean(shape, {prefill(1, 80)});
  const std::vector<float> wanted = run(clean).out;
  for (size_t bad : {1u, 20u, 66u}) {
    Problem dirty(shape, {prefill(1, 80)});
    dirty.k(0)[bad * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
    for (size_t d = 0; d < 64; ++d) dirty.v(0)[bad * 64 + d] = kNone;
    dirty.store();
    const std::vector<float> out = run(dirty).out;
    const auto size = static_cast<std::ptrdiff_t>(bad * 3 * 64);
    ASSERT_TRUE(std::equal(out.begin(), out.begin() + size, wanted.begin())) << bad;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionBits, testing::ValuesIn(kernels()),
                         [](const auto& kernel) { return std::string(kernel.param.name); });

}  // namespace
}  // namespace headrace::attention
