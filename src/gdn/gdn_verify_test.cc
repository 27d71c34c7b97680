// SPDX-License-Identifier: Apache-2.0
// Verify windows: outputs of every draft, a live state that stays behind what was accepted, and the
// replay of the accepted prefix by rows of every kind.
#include <gtest/gtest.h>

#include <cstring>

#include "base/check.h"
#include "gdn/gdn_test_util.h"

namespace headrace::gdn::test {
namespace {

constexpr double kBar = 1e-5;
constexpr int kMaxWindow = metadata::kMaxVerifyTokens;

struct Sequence {
  explicit Sequence(const Layer& layer, int tokens, unsigned seed)
      : shape(layer.shape), x(random_tokens(layer.shape, tokens, seed)) {
    Reference reference(layer);
    for (int t = 0; t < tokens; ++t) {
      reference.step(&x[static_cast<size_t>(t) * shape.projection_dim()], nullptr, &out);
      states.push_back(reference.state());
      windows.push_back(reference.window());
    }
  }

  std::vector<float> tokens(int begin, int end) const {
    return slice(x, shape.projection_dim(), begin, end);
  }
  std::vector<double> expected(int begin, int end) const {
    return {out.begin() + int64_t{begin} * shape.value_dim(),
            out.begin() + int64_t{end} * shape.value_dim()};
  }

  GdnShape shape;
  std::vector<float> x;
  std::vector<double> out;                   // of plain decode
  std::vector<std::vector<double>> states;   // after token t
  std::vector<std::vector<double>> windows;  // after token t
};

// `good` true tokens of the sequence, then garbage drafts.
std::vector<float> window_tokens(const Sequence& sequence, int begin, int good, int window,
                                 unsigned seed) {
  std::vector<float> x = sequence.tokens(begin, begin + good);
  const std::vector<float> garbage = random_tokens(sequence.shape, window - good, seed);
  x.insert(x.end(), garbage.begin(), garbage.end());
  return x;
}

// For every window length and accepted count: a prompt, a verify step, and then a row of `kind`
// that replays what was accepted. All of it equals plain decode of the accepted tokens.
TEST(GdnVerify, EveryAcceptedCountEqualsPlainDecode) {
  const Layer layer(make_shape(2, 4, 24, 40));
  constexpr int kPrompt = 70;
  const Sequence sequence(layer, kPrompt + kMaxWindow + 80, 31);
  for (int window : {2, 3, 5, kMaxWindow}) {
    for (int accepted = 0; accepted <= window; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of " << window);
      Bench bench(layer, 6, kMaxWindow);
      bench.run({make_row(kPrompt, 0, 1, 1)}, sequence.tokens(0, kPrompt));
      const std::vector<float> out =
          bench.run({make_row(window, kPrompt, 1, 1, window - 1)},
                    window_tokens(sequence, kPrompt, accepted, window, 1));
      EXPECT_LE(relative_error(slice(out, sequence.shape.value_dim(), 0, accepted),
                               sequence.expected(kPrompt, kPrompt + accepted)),
                kBar);
      // The live state did not move.
      EXPECT_LE(relative_error(bench.state(1), sequence.states[kPrompt - 1]), kBar);
      EXPECT_EQ(relative_error(bench.window(1), sequence.windows[kPrompt - 1]), 0.0);

      // Rows of each kind go on from slot 1 to slots of their own.
      const int begin = kPrompt + accepted;
      struct Next {
        int tokens;
        int drafts;
        int slot;
      };
      for (const Next& next : {Next{1, 0, 2}, Next{4, 3, 3}, Next{60, 0, 4}}) {
        SCOPED_TRACE(next.tokens);
        const std::vector<float> after =
            bench.run({make_row(next.tokens, begin, 1, next.slot, next.drafts, accepted)},
                      sequence.tokens(begin, begin + next.tokens));
        EXPECT_LE(relative_error(after, sequence.expected(begin, begin + next.tokens)), kBar);
        const int consumed = next.drafts > 0 ? begin : begin + next.tokens;
        EXPECT_LE(relative_error(bench.state(next.slot),
                                 sequence.states[static_cast<size_t>(consumed - 1)]),
                  kBar);
        EXPECT_EQ(relative_error(bench.window(next.slot),
                                 sequence.windows[static_cast<size_t>(consumed - 1)]),
                  0.0);
      }
    }
  }
}

// Many verify steps in place, with other window lengths and accepted counts each time, zero-draft
// steps between them, and a prefill row at the end.
TEST(GdnVerify, WindowsInARowInPlace) {
  const Layer layer(make_shape(1, 2, 32, 32));
  constexpr int kPrompt = 61;
  constexpr int kTotal = 400;
  const Sequence sequence(layer, kTotal, 33);
  for (const CpuKernels* kernels : {&cpu_kernels(), &scalar_kernels()}) {
    std::mt19937 rng(4);
    Bench bench(layer, 3, kMaxWindow, 0, 1, *kernels);
    bench.run({make_row(kPrompt, 0, 2, 2)}, sequence.tokens(0, kPrompt));
    int position = kPrompt;  // tokens accepted so far
    int pending = 0;         // of them, not yet in the live state
    int live = kPrompt;
    while (position < kTotal - 60) {
      const int window = 1 + static_cast<int>(rng() % kMaxWindow);
      const int good = window == 1 ? 1 : static_cast<int>(rng() % (window + 1));
      const std::vector<float> out =
          bench.run({make_row(window, position, 2, 2, window - 1, pending)},
                    window_tokens(sequence, position, good, window, rng()));
      EXPECT_LE(relative_error(slice(out, sequence.shape.value_dim(), 0, good),
                               sequence.expected(position, position + good)),
                kBar);
      live = window == 1 ? position + 1 : position;
      EXPECT_LE(relative_error(bench.state(2), sequence.states[static_cast<size_t>(live - 1)]),
                kBar);
      EXPECT_EQ(relative_error(bench.window(2), sequence.windows[static_cast<size_t>(live - 1)]),
                0.0);
      position += good;
      pending = window == 1 ? 0 : good;
    }
    const std::vector<float> out = bench.run({make_row(50, position, 2, 2, 0, pending)},
                                             sequence.tokens(position, position + 50));
    EXPECT_LE(relative_error(out, sequence.expected(position, position + 50)), kBar);
    EXPECT_LE(relative_error(bench.state(2), sequence.states[static_cast<size_t>(position + 49)]),
              kBar);
  }
}

// A verify row from an immutable checkpoint writes only its final slot.
TEST(GdnVerify, StartsFromACheckpointWithoutTouchingIt) {
  const Layer layer(make_shape(1, 2, 16, 16));
  const Sequence sequence(layer, 100, 35);
  Bench bench(layer, 4, 4);
  bench.run({make_row(64, 0, 1, 1)}, sequence.tokens(0, 64));
  const int64_t stride = bench.pool().slot_stride;
  const std::vector<float> before(bench.memory().begin() + stride,
                                  bench.memory().begin() + 2 * stride);
  const std::vector<float> out = bench.run({make_row(4, 64, 1, 3, 3)}, sequence.tokens(64, 68));
  EXPECT_LE(relative_error(out, sequence.expected(64, 68)), kBar);
  EXPECT_EQ(std::memcmp(before.data(), &bench.memory()[stride],
                        sizeof(float) * static_cast<size_t>(stride)),
            0);
  EXPECT_EQ(bench.state(3), bench.state(1));
  const std::vector<float> next = bench.run({make_row(1, 67, 3, 3, 0, 3)}, sequence.tokens(67, 68));
  EXPECT_LE(relative_error(next, sequence.expected(67, 68)), kBar);
}

TEST(GdnVerify, WindowsTheSlotHasNoRoomForAreRefused) {
  const Layer layer(make_shape(1, 2, 16, 16));
  Bench bench(layer, 3, 3);
  bench.run({make_row(5, 0, 1, 1)}, random_tokens(layer.shape, 5, 1));
  EXPECT_THROW(bench.run({make_row(4, 5, 1, 1, 3)}, random_tokens(layer.shape, 4, 1)),
               InternalError);
  EXPECT_THROW(bench.run({make_row(1, 5, 1, 1, 0, 4)}, random_tokens(layer.shape, 1, 1)),
               InternalError);
}

}  // namespace
}  // namespace headrace::gdn::test
