// SPDX-License-Identifier: Apache-2.0
// Every attention kernel of the CPU against fp64, over all options and awkward lengths, with NaN in
// everything that must not be read.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <random>

#include "attention/attention_test_problem.h"
#include "attention/kv_cache.h"
#include "tests/support/scale.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

class Attention : public testing::TestWithParam<NamedKernel> {
 protected:
  Output run(Problem& problem) { return problem.run(GetParam()); }

  void expect_close(const Output& actual, const Output& exact, const Shape& shape) {
    // Scores grow with the square of the magnitude, and their rounding with them.
    const float tolerance = 1e-5f * std::max(1.0f, shape.magnitude * shape.magnitude);
    ASSERT_EQ(actual.out.size(), exact.out.size());
    for (size_t i = 0; i < exact.out.size(); ++i) {
      ASSERT_NEAR(actual.out[i], exact.out[i], tolerance) << "out " << i;
    }
    if (!shape.lse) return;
    for (size_t i = 0; i < exact.lse.size(); ++i) {
      if (exact.lse[i] == kNone) {
        ASSERT_EQ(actual.lse[i], kNone) << "lse " << i;
      } else {
        ASSERT_NEAR(actual.lse[i], exact.lse[i], 1e-5f * (1.0f + std::abs(exact.lse[i])))
            << "lse " << i;
      }
    }
  }
  void expect_exact_answer(const Shape& shape, const std::vector<Sequence>& sequences,
                           const test::TestStepOptions& options = {}) {
    Problem problem(shape, sequences, options);
    expect_close(run(problem), problem.exact(), shape);
  }
};

TEST_P(Attention, AwkwardLengths) {
  const Shape shape{.heads = {2, 1, 64}};
  for (int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300}) {
    SCOPED_TRACE(length);
    expect_exact_answer(shape, {prefill(1, length)});
    expect_exact_answer(shape, {decode(2, length)});
    expect_exact_answer(shape, {prefill(3, 7, length)});
    expect_exact_answer(shape, {verify(4, 15, length)});
  }
}

TEST_P(Attention, AllKindsInOneBatch) {
  expect_exact_answer({}, mixed_batch());
  expect_exact_answer({}, mixed_batch(), {.max_tokens = 200, .padded_rows = 12});
}

TEST_P(Attention, HeadDimsAndGroups) {
  const std::vector<Sequence> batch{decode(1, 66), prefill(2, 9, 60), prefill(3, 3)};
  for (int32_t head_dim : {8, 24, 64, 80, 128, 256, 512}) {
    for (int32_t group : {1, 3, 5, 8, 16}) {
      for (int32_t kv_heads : {1, 2}) {
        SCOPED_TRACE(fmt::format("D {} group {} kv heads {}", head_dim, group, kv_heads));
        const Shape shape{.heads = {group * kv_heads, kv_heads, head_dim},
                          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
        expect_exact_answer(shape, batch);
      }
    }
  }
}

// Random draws over the product of all options: any two of them meet many times.
TEST_P(Attention, OptionsTogether) {
  std::mt19937 random(5);
  const auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  for (int i = 0; i < test::scaled(100); ++i) {
    Shape shape;
    const int32_t kv_heads = pick(1, 2, 3);
    shape.heads = {kv_heads * pick(1, 2, 3, 5, 8, 16), kv_heads, pick(8, 64, 128)};
    shape.dtype = pick(DType::kF32, DType::kBF16, DType::kF16);
    shape.layout = pick(Layout::kNhd, Layout::kHnd);
    shape.page_size = pick(1, 8, 16, 64, 256);
    shape.stride_padding = pick(0, 3, 8);
    shape.window = pick(0, 1, 7, 64, 65, 100);
    shape.soft_cap = pick(0.0f, 2.0f, 30.0f);
    shape.sinks = pick(0, 1) == 1;
    shape.lse = pick(0, 1) == 1;
    shape.magnitude = pick(0.5f, 3.0f);
    const int32_t edge = shape.page_size;
    const std::vector<Sequence> batch{
        decode(1, pick(1, 63, 64, 65, 200, edge, edge + 1)),
        pick(0, 1) == 1 ? padding() : decode(2, 90),
        prefill(3, pick(1, 5, 63, 64, 66, edge), pick(0, 0, 1, 60, 64, edge)),
        verify(4, pick(1, 4, 15), pick(1, 60, 63, 130, edge))};
    SCOPED_TRACE(fmt::format(
        "draw {}: Hq {} Hkv {} D {} dtype {} layout {} page {} window {} cap {} sinks {}", i,
        shape.heads.num_q_heads, kv_heads, shape.heads.head_dim, dtype_name(shape.dtype),
        static_cast<int>(shape.layout), shape.page_size, shape.window, shape.soft_cap,
        shape.sinks));
    expect_exact_answer(shape, batch, {.seed = static_cast<uint64_t>(i)});
    if (HasFatalFailure()) return;
  }
}

TEST_P(Attention, OnlyPaddingGivesZeros) {
  Problem problem({}, {padding(), padding()}, {.max_tokens = 5, .padded_rows = 4});
  const Output output = run(problem);
  for (float x : output.out) ASSERT_EQ(x, 0.0f);
  for (float x : output.lse) ASSERT_EQ(x, kNone);
}

TEST_P(Attention, ExtremeLogits) {
  for (float extreme : {-5e5f, 5e5f}) {
    for (bool sinks : {false, true}) {
      const Shape shape{.heads = {2, 1, 8}, .scale = 1.0f, .sinks = sinks};
      Problem problem(shape, {prefill(1, 100)});
      // Scores that fp32 holds exactly: extreme, and every fifth one 2 above it.
      for (size_t i = 0; i < 100; ++i) {
        for (size_t d = 0; d < 16; ++d) problem.q(0)[i * 16 + d] = d % 8 == 0 ? 1.0f : 0.0f;
        problem.k(0)[i * 8] = extreme + (i % 5 == 0 ? 2.0f : 0.0f);
      }
      problem.store();
      expect_close(run(problem), problem.exact(), shape);
    }
  }
}

TEST_P(Attention, ScoresOfMinusInfinityEverywhereGiveZero) {
  const Shape shape{.heads = {1, 1, 8}};
  Problem problem(shape, {prefill(1, 70)});
  for (size_t i = 0; i < 70; ++i) {
    for (size_t d = 0; d < 8; ++d) problem.q(0)[i * 8 + d] = d == 0 ? 1.0f : 0.0f;
    problem.k(0)[i * 8] = kNone;
    for (size_t d = 1; d < 8; ++d) problem.k(0)[i * 8 + d] = 1.0f;
  }
  problem.store();
  const Output output = run(problem);
  for (float x : output.out) ASSERT_EQ(x, 0.0f);
  for (float x : output.lse) ASSERT_EQ(x, kNone);
}

// A cache whose offsets do not fit 32 bits: address space only, hardly any of it is touched.
TEST_P(Attention, OffsetsBeyond32Bits) {
  const Shape shape{.heads = {2, 1, 8}, .page_size = 16};
  const std::vector<Sequence> batch{prefill(1, 40), decode(2, 20)};
  Problem near(shape, batch);
  const Output wanted = run(near);

  AttentionParams params = near.params();
  KvCache& far = params.cache;
  const KvCache small = far;
  far.page_stride = int64_t{3} << 30;
  far.value_offset = (int64_t{1} << 31) + 24;
  const size_t bytes = static_cast<size_t>(far.num_pages * far.page_stride) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no " << bytes << " bytes of address space";
  far.data = memory;
  std::vector<float> vector(8);
  for (int64_t page = 1; page < far.num_pages; ++page) {
    for (int64_t offset = 0; offset < far.page_size; ++offset) {
      for (bool value : {false, true}) {
        load_vector(small, key_offset(small, page, offset, 0) + (value ? small.value_offset : 0), 8,
                    vector.data());
        store_vector(far, key_offset(far, page, offset, 0) + (value ? far.value_offset : 0), 8,
                     vector.data());
      }
    }
  }
  Output output{std::vector<float>(wanted.out.size()), std::vector<float>(wanted.lse.size())};
  params.out = output.out.data();
  params.lse = output.lse.data();
  GetParam().run(params, near.step().pool());
  EXPECT_EQ(output.out, wanted.out);
  EXPECT_EQ(output.lse, wanted.lse);
  munmap(memory, bytes);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, testing::ValuesIn(kernels()),
                         [](const auto& kernel) { return std::string(kernel.param.name); });

}  // namespace
}  // namespace headrace::attention
