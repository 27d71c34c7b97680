// SPDX-License-Identifier: Apache-2.0
// What happens to slots: resuming, null slots, dirty slots, checkpoints, strides, and memory that
// no step may touch.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "gdn/gdn_test_util.h"

namespace headrace::gdn::test {
namespace {

constexpr double kBar = 1e-5;

bool all_nan(const float* data, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(data[i])) return false;
  }
  return true;
}

// The parts of a slot that live beyond a step, checkpoint-wise.
std::vector<float> live(const Bench& bench, int slot) {
  std::vector<float> all = bench.window(slot);
  const std::vector<float> state = bench.state(slot);
  all.insert(all.end(), state.begin(), state.end());
  return all;
}

class CutTest : public testing::TestWithParam<int> {};

// A row cut at `cut` and resumed: bit-equal where the cut is a chunk edge, else to rounding.
TEST_P(CutTest, ResumedRowEqualsUncutRow) {
  const int cut = GetParam();
  constexpr int kTokens = 333;
  const GdnShape shape = make_shape(2, 4, 32, 40);
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, kTokens, 11);
  Bench whole(layer, 2);
  const std::vector<float> expected = whole.run({make_row(kTokens, 0, 1, 1)}, x);

  Bench parts(layer, 3);
  std::vector<float> out =
      parts.run({make_row(cut, 0, 2, 2)}, slice(x, shape.projection_dim(), 0, cut));
  // On to another slot: the first one stays as it was.
  const std::vector<float> before = live(parts, 2);
  const std::vector<float> rest = parts.run({make_row(kTokens - cut, cut, 2, 1)},
                                            slice(x, shape.projection_dim(), cut, kTokens));
  EXPECT_EQ(live(parts, 2), before);
  out.insert(out.end(), rest.begin(), rest.end());
  if (cut % metadata::kChunkTokens == 0) {
    EXPECT_EQ(out, expected);
    EXPECT_EQ(live(parts, 1), live(whole, 1));
  } else {
    EXPECT_LE(relative_error(out, expected), kBar);
    EXPECT_LE(relative_error(parts.state(1), whole.state(1)), kBar);
    EXPECT_EQ(parts.window(1), whole.window(1));
  }
}

INSTANTIATE_TEST_SUITE_P(Positions, CutTest,
                         testing::Values(1, 2, 3, 5, 31, 63, 64, 65, 100, 127, 128, 129, 192, 250,
                                         256, 320, 331, 332));

TEST(GdnState, EveryCutOfManyPiecesAtChunkEdgesIsBitEqual) {
  constexpr int kTokens = 300;
  const GdnShape shape = make_shape(1, 2, 24, 16);
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, kTokens, 12);
  Bench whole(layer, 2);
  const std::vector<float> expected = whole.run({make_row(kTokens, 0, 1, 1)}, x);
  Bench parts(layer, 2);
  std::vector<float> out;
  for (int begin = 0; begin < kTokens; begin += 64) {
    const int end = std::min(kTokens, begin + 64);
    const std::vector<float> piece = parts.run({make_row(end - begin, begin, 1, 1)},
                                               slice(x, shape.projection_dim(), begin, end));
    out.insert(out.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(out, expected);
  EXPECT_EQ(live(parts, 1), live(whole, 1));
}

TEST(GdnState, NullAndDirtySlotsMeanZeros) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  for (int tokens : {1, 2, 40, 70}) {
    const std::vector<float> x = random_tokens(shape, tokens, 13);
    Reference reference(layer);
    std::vector<double> expected;
    for (int t = 0; t < tokens; ++t) {
      reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &expected);
    }
    // Slot 1 holds NaN. A fresh row starts from zeros although it names it, and so does a row with
    // context whose initial slot is null.
    Bench bench(layer, 3);
    EXPECT_LE(relative_error(bench.run({make_row(tokens, 0, 1, 1)}, x), expected), kBar);
    EXPECT_LE(relative_error(bench.run({make_row(tokens, 64, 0, 2)}, x), expected), kBar);
    EXPECT_LE(relative_error(bench.state(2), reference.state()), kBar);
    EXPECT_TRUE(all_nan(bench.memory().data(), bench.pool().slot_stride));
  }
}

TEST(GdnState, NullFinalSlotDiscardsAndWritesNothing) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  Bench bench(layer, 3, 4);
  bench.run({make_row(30, 0, 1, 1)}, random_tokens(shape, 30, 1));
  const std::vector<float> memory = bench.memory();
  const std::vector<float> x = random_tokens(shape, 20, 2);
  const std::vector<float> kept = bench.run({make_row(20, 30, 1, 2)}, x);
  std::copy(memory.begin(), memory.end(), bench.memory().begin());
  EXPECT_EQ(bench.run({make_row(20, 30, 1, 0)}, x), kept);
  EXPECT_EQ(std::memcmp(memory.data(), bench.memory().data(), memory.size() * sizeof(float)), 0);
  // Verify and decode rows likewise.
  bench.run({make_row(4, 30, 1, 0, 3)}, slice(x, shape.projection_dim(), 0, 4));
  bench.run({make_row(1, 30, 1, 0)}, slice(x, shape.projection_dim(), 0, 1));
  EXPECT_EQ(std::memcmp(memory.data(), bench.memory().data(), memory.size() * sizeof(float)), 0);
}

TEST(GdnState, ZeroLengthRowsAndStepsLeaveEverythingAlone) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  Bench bench(layer, 3, 4);
  bench.run({make_row(30, 0, 1, 1)}, random_tokens(shape, 30, 1));
  const std::vector<float> memory = bench.memory();
  const std::vector<float> out = bench.run({make_row(0, 0, 1, 2), make_row(0, 0, 2, 1)}, {}, {}, 5);
  EXPECT_EQ(std::memcmp(memory.data(), bench.memory().data(), memory.size() * sizeof(float)), 0);
  EXPECT_EQ(out, std::vector<float>(out.size(), 0.0f));
}

TEST(GdnState, PaddingTokensAreZeroAndFreeSlotsUntouched) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  constexpr int64_t kSlotPadding = 37;
  Bench bench(layer, 6, 3, kSlotPadding);
  // Projection rows of padding tokens are absent: reading them would be out of bounds.
  const std::vector<float> out =
      bench.run({make_row(10, 0, 2, 2), make_row(0, 0, 0, 0), make_row(66, 0, 4, 4)},
                random_tokens(shape, 76, 1), {}, 9);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool padding = i >= static_cast<size_t>(76 * shape.value_dim());
    ASSERT_EQ(out[i] == 0.0f, padding) << i;
  }
  const int64_t stride = bench.pool().slot_stride;
  for (int slot : {0, 1, 3, 5}) EXPECT_TRUE(all_nan(&bench.memory()[slot * stride], stride));
  for (int slot : {2, 4}) {
    // Pending windows and the gap between slots were nobody's business.
    const SlotLayout layout = slot_layout(shape, 3);
    EXPECT_TRUE(all_nan(&bench.memory()[slot * stride + layout.pending_conv],
                        stride - layout.pending_conv));
  }
}

TEST(GdnState, CheckpointsEqualACutRowAndResume) {
  constexpr int kTokens = 290;
  const GdnShape shape = make_shape(2, 4, 32, 48);
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, kTokens, 17);
  for (int context : {0, 64, 70, 127}) {
    SCOPED_TRACE(context);
    const auto tokens = [&](int begin, int end) {
      return slice(x, shape.projection_dim(), begin, end);
    };
    Bench bench(layer, 9);
    if (context > 0) bench.run({make_row(context, 0, 1, 1)}, tokens(0, context));
    // The row's end, 256, is a checkpoint too. Another row stands in front.
    std::vector<float> both = random_tokens(shape, 67, 99);
    const std::vector<float> own = tokens(context, 256);
    both.insert(both.end(), own.begin(), own.end());
    std::vector<metadata::Checkpoint> checkpoints{{0, 7, 64}};
    for (int position = 128, slot = 3; position <= 256; position += 64, ++slot) {
      checkpoints.push_back({1, slot, position});
    }
    const std::vector<float> out = bench.run(
        {make_row(67, 0, 6, 6), make_row(256 - context, context, 1, 2)}, both, checkpoints);
    EXPECT_EQ(live(bench, 5), live(bench, 2));

    for (int position = 128, slot = 3; position <= 256; position += 64, ++slot) {
      SCOPED_TRACE(position);
      Bench cut(layer, 2);
      if (context > 0) cut.run({make_row(context, 0, 1, 1)}, tokens(0, context));
      cut.run({make_row(position - context, context, 1, 1)}, tokens(context, position));
      EXPECT_EQ(live(bench, slot), live(cut, 1));
      if (position == 256) continue;
      // Resumed from the checkpoint, without writing to it: the rest of the row, bit for bit.
      const std::vector<float> before = live(bench, slot);
      const std::vector<float> resumed =
          bench.run({make_row(256 - position, position, slot, 8)}, tokens(position, 256));
      EXPECT_EQ(resumed,
                slice(out, shape.value_dim(), 67 + position - context, 67 + 256 - context));
      EXPECT_EQ(live(bench, 8), live(bench, 2));
      EXPECT_EQ(live(bench, slot), before);
    }
  }
}

TEST(GdnState, DecodeRowKeepsACheckpointAtItsEnd) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, 64, 3);
  Bench bench(layer, 4);
  bench.run({make_row(63, 0, 1, 1)}, slice(x, shape.projection_dim(), 0, 63));
  bench.run({make_row(1, 63, 1, 1)}, slice(x, shape.projection_dim(), 63, 64), {{0, 2, 64}});
  EXPECT_EQ(live(bench, 1), live(bench, 2));
  EXPECT_FALSE(std::isnan(bench.state(2)[0]));
}

// Two rows may start from one checkpoint in the same step.
TEST(GdnState, SharedInitialSlot) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  const std::vector<float> x = random_tokens(shape, 80, 3);
  Bench bench(layer, 4);
  bench.run({make_row(64, 0, 1, 1)}, slice(x, shape.projection_dim(), 0, 64));
  const std::vector<float> before = live(bench, 1);
  std::vector<float> twice = slice(x, shape.projection_dim(), 64, 80);
  const std::vector<float> once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  const std::vector<float> out = bench.run({make_row(16, 64, 1, 2), make_row(16, 64, 1, 3)}, twice);
  EXPECT_EQ(slice(out, shape.value_dim(), 0, 16), slice(out, shape.value_dim(), 16, 32));
  EXPECT_EQ(live(bench, 2), live(bench, 3));
  EXPECT_EQ(live(bench, 1), before);
}

// Slots beyond 2^31 floats, in address space that costs memory only where it is touched.
TEST(GdnState, SlotsPastTwoToTheThirtyOne) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  constexpr int64_t kStride = (int64_t{1} << 30) + 12345;
  const size_t bytes = sizeof(float) * static_cast<size_t>(kStride) * 4;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no " << bytes << " bytes of address space";
  const std::vector<float> x = random_tokens(shape, 75, 3);
  Bench near(layer, 4);
  Bench far(layer, 4);
  far.set_memory(static_cast<float*>(memory), kStride);
  for (Bench* bench : {&near, &far}) {
    bench->run({make_row(70, 0, 3, 3)}, slice(x, shape.projection_dim(), 0, 70));
  }
  EXPECT_EQ(far.run({make_row(5, 70, 3, 2)}, slice(x, shape.projection_dim(), 70, 75)),
            near.run({make_row(5, 70, 3, 2)}, slice(x, shape.projection_dim(), 70, 75)));
  EXPECT_EQ(live(far, 3), live(near, 3));
  EXPECT_EQ(live(far, 2), live(near, 2));
  munmap(memory, bytes);
}

}  // namespace
}  // namespace headrace::gdn::test
