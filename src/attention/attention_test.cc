// SPDX-License-Identifier: Apache-2.0
// Every attention kernel of the CPU against fp64, over all options and awkward lengths, with NaN in
// everything that must not be read.
#include "attention/attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <random>

#include "attention/attention_test_problem.h"
#include "attention/cpu/attention_tiled.h"
#include "attention/kv_cache.h"
#include "attention/reference.h"
#include "base/check.h"
#include "base/cpu_features.h"
#include "tests/support/scale.h"

namespace headrace::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct NamedKernel {
  const char* name;
  Problem::Kernel run;
};

std::vector<NamedKernel> kernels() {
  std::vector<NamedKernel> all{{"reference", attention_reference}};
  if (cpu_isa() == Isa::kAvx2) all.push_back({"tiled", attention_tiled});
  return all;
}

class Attention : public testing::TestWithParam<NamedKernel> {
 protected:
  Output run(Problem& problem) { return problem.run(GetParam().run); }

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

Sequence prefill(uint32_t key, int32_t query_len, int32_t context_len = 0) {
  return {key, {.query_len = query_len, .context_len = context_len}};
}
Sequence decode(uint32_t key, int32_t context_len) { return prefill(key, 1, context_len); }
Sequence verify(uint32_t key, int32_t num_drafts, int32_t context_len) {
  return {key, {.query_len = 1 + num_drafts, .context_len = context_len, .num_drafts = num_drafts}};
}
Sequence padding() { return {0, {}}; }

std::vector<Sequence> mixed_batch() {
  return {decode(1, 130),     padding(),    prefill(2, 70), verify(3, 3, 62),
          prefill(4, 33, 64), decode(5, 1), prefill(6, 1)};
}

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
  for (int i = 0; i < test::scaled(150); ++i) {
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

// A sequence's tokens give the same bits whatever stands beside them, however they are chunked,
// and wherever they lie.
TEST_P(Attention, BitEqualAcrossPageSizesLayoutsAndThreads) {
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

TEST_P(Attention, BitEqualAcrossBatchesAndRowOrder) {
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

TEST_P(Attention, BitEqualAcrossChunks) {
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
TEST_P(Attention, LaterTokensDoNotReachEarlierOnes) {
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

// The op: submitted once, captured, replayed with other rows.
TEST(AttentionOp, ReplaysWithOtherLengths) {
  const Shape shape{.heads = {4, 2, 64}};
  const test::TestStepOptions options{.max_rows = 4, .max_tokens = 100, .max_pages_per_row = 20};
  Problem problem(shape, {prefill(1, 50), decode(2, 40)}, options);
  Output output = problem.exact();
  AttentionParams params = problem.params();
  params.out = output.out.data();
  params.lse = output.lse.data();
  CpuStream& stream = problem.step().stream();
  stream.begin_capture();
  attention(stream, params);
  const CpuGraph graph = stream.end_capture();
  for (const std::vector<test::TestRow>& rows :
       std::vector<std::vector<test::TestRow>>{{{.query_len = 1, .context_len = 7}}, {{}, {}}}) {
    problem.step().set_rows(rows);
    problem.step().rebuild();
    std::fill(output.out.begin(), output.out.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(output.lse.begin(), output.lse.end(), std::numeric_limits<float>::quiet_NaN());
    stream.launch(graph);
    const auto tokens = static_cast<size_t>(problem.step().view().counts->num_tokens);
    for (size_t i = tokens * 4 * 64; i < output.out.size(); ++i) ASSERT_EQ(output.out[i], 0.0f);
    for (size_t i = tokens * 4; i < output.lse.size(); ++i) ASSERT_EQ(output.lse[i], kNone);
    for (size_t i = 0; i < tokens * 4; ++i) ASSERT_NE(output.lse[i], kNone);
  }
}

TEST(AttentionOp, RefusesShapesItCannotCompute) {
  Problem problem({}, {prefill(1, 3)});
  CpuStream& stream = problem.step().stream();
  AttentionParams params = problem.params();
  params.heads = {34, 2, 64};
  EXPECT_THROW(attention(stream, params), InternalError);
  params.heads = {3, 2, 64};
  EXPECT_THROW(attention(stream, params), InternalError);
  params.heads = {2, 2, 60};
  EXPECT_THROW(attention(stream, params), InternalError);
  params = problem.params();
  params.cache.dtype = DType::kFP8E4M3;
  EXPECT_THROW(attention(stream, params), InternalError);
}

TEST(KvWrite, WritesTheNewTokensAndNothingElse) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (Layout layout : {Layout::kNhd, Layout::kHnd}) {
      const Shape shape{.heads = {4, 2, 24},
                        .dtype = dtype,
                        .layout = layout,
                        .page_size = 8,
                        .stride_padding = 3};
      const std::vector<Sequence> batch{prefill(1, 20, 5), padding(), decode(2, 8)};
      Problem problem(shape, batch, {.max_tokens = 30, .num_threads = 2});
      const metadata::StepView& view = problem.step().view();
      KvCache cache = make_cache(shape, problem.step().num_pages());
      std::vector<float> before(static_cast<size_t>(cache_elements(cache)), 7.5f);
      std::vector<char> bytes(before.size() * dtype_size_bytes(dtype));
      cache.data = bytes.data();
      store_vector(cache, 0, cache_elements(cache), before.data());

      // k and v of a token in one vector: 2 · Hkv · D, padded with what must not be written.
      std::vector<float> packed(30 * 100, std::numeric_limits<float>::quiet_NaN());
      for (int32_t token = 0; token < view.counts->num_tokens; ++token) {
        for (int32_t i = 0; i < 96; ++i) {
          packed[static_cast<size_t>(token * 100 + i)] =
              static_cast<float>((token * 7 + i * 3) % 251);
        }
      }
      kv_write(problem.step().stream(), {.heads = shape.heads,
                                         .k = packed.data(),
                                         .k_stride = 100,
                                         .v = packed.data() + 48,
                                         .v_stride = 100,
                                         .cache = cache,
                                         .step = view});
      std::vector<float> after(before.size());
      load_vector(cache, 0, cache_elements(cache), after.data());
      for (int64_t token = 0; token < view.counts->num_tokens; ++token) {
        const int64_t slot = view.slot_mapping[token];
        for (int64_t head = 0; head < 2; ++head) {
          for (bool value : {false, true}) {
            const int64_t offset =
                key_offset(cache, slot / 8, slot % 8, head) + (value ? cache.value_offset : 0);
            for (int64_t d = 0; d < 24; ++d) {
              const auto at = static_cast<size_t>(offset + d);
              ASSERT_EQ(
                  after[at],
                  packed[static_cast<size_t>(token * 100 + head * 24 + d) + (value ? 48 : 0)]);
              after[at] = 7.5f;
            }
          }
        }
      }
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
}  // namespace headrace::attention
