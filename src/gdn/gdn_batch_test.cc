// SPDX-License-Identifier: Apache-2.0
// Batch composition, order and threads change no bit, and a captured step replays with others'
// lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "gdn/gdn.h"
#include "gdn/gdn_test_util.h"
#include "tests/support/scale.h"

namespace headrace::gdn::test {
namespace {

constexpr int kMaxWindow = 5;

// Compared as bits: NaN in what a row does not write must stay the NaN it was.
bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, sizeof(float) * static_cast<size_t>(n)) == 0;
}

// A batch with rows of every kind over slots that an earlier step filled. Row r has slot r + 1.
struct Mixed {
  explicit Mixed(const GdnShape& shape, unsigned seed) : rng(seed) {
    for (int r = 0; r < 8; ++r) {
      const int slot = r + 1;
      const int context = 20 + static_cast<int>(rng() % 120);
      contexts.push_back(context);
      switch (r) {
        case 0:
        case 5:
          rows.push_back(make_row(1, context + 2, slot, slot, 0, 2));  // decode after a window
          break;
        case 1:
          rows.push_back(make_row(4, context + 3, slot, slot, 3, 3));  // verify
          break;
        case 2:
          rows.push_back(make_row(5, context, slot, 9, 4, 0));  // verify from a checkpoint
          break;
        case 3:
          rows.push_back(make_row(130, 0, slot, slot));  // fresh prompt in a dirty slot
          break;
        case 4:
          rows.push_back(make_row(90, context + 1, slot, slot, 0, 1));  // prompt piece, replay
          break;
        case 6:
          rows.push_back(make_row(0, 0, 0, 0));  // padding
          break;
        default:
          rows.push_back(make_row(1, 0, slot, slot));  // fresh one-token prompt
      }
      inputs.push_back(random_tokens(shape, rows.back().query_len, rng()));
    }
  }

  // All slots with a state and a pending window of kMaxWindow tokens.
  void fill(Bench& bench, const GdnShape& shape) const {
    for (int r = 0; r < 8; ++r) {
      const int slot = r + 1;
      const int context = contexts[static_cast<size_t>(r)];
      bench.run({make_row(context, 0, slot, slot)},
                random_tokens(shape, context, 100 + static_cast<unsigned>(r)));
      bench.run({make_row(kMaxWindow, context, slot, slot, kMaxWindow - 1)},
                random_tokens(shape, kMaxWindow, 200 + static_cast<unsigned>(r)));
    }
  }

  std::mt19937 rng;
  std::vector<int> contexts;
  std::vector<Row> rows;
  std::vector<std::vector<float>> inputs;
};

TEST(GdnBatch, RowsInAnyOrderEqualRowsAloneWithAnyThreads) {
  for (const GdnShape& shape : {make_shape(2, 4, 32, 40), make_shape(3, 9, 16, 8)}) {
    const Layer layer(shape);
    Mixed mixed(shape, 5);
    Bench alone(layer, 10, kMaxWindow);
    mixed.fill(alone, shape);
    const std::vector<float> start = alone.memory();
    std::vector<std::vector<float>> expected;
    for (size_t r = 0; r < mixed.rows.size(); ++r) {
      expected.push_back(mixed.rows[r].query_len == 0
                             ? std::vector<float>{}
                             : alone.run({mixed.rows[r]}, mixed.inputs[r]));
    }

    std::vector<size_t> order(mixed.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(round);
      Bench batch(layer, 10, kMaxWindow, 0, 1 + round % 3);
      std::copy(start.begin(), start.end(), batch.memory().begin());
      std::vector<Row> rows;
      std::vector<float> x;
      for (size_t r : order) {
        rows.push_back(mixed.rows[r]);
        x.insert(x.end(), mixed.inputs[r].begin(), mixed.inputs[r].end());
      }
      const std::vector<float> out = batch.run(rows, x);
      auto at = out.begin();
      for (size_t r : order) {
        ASSERT_TRUE(std::equal(expected[r].begin(), expected[r].end(), at)) << "row " << r;
        at += static_cast<int64_t>(expected[r].size());
      }
      ASSERT_TRUE(same_bits(batch.memory().data(), alone.memory().data(),
                            static_cast<int64_t>(start.size())));
      std::shuffle(order.begin(), order.end(), mixed.rng);
    }
  }
}

// One graph, captured once, replayed with batches of other kinds and lengths.
TEST(GdnBatch, CapturedStepReplaysWithOtherRows) {
  const GdnShape shape = make_shape(1, 2, 16, 16);
  const Layer layer(shape);
  constexpr int kMaxTokens = 96;
  headrace::test::TestStep step({make_row(kMaxTokens, 0, 1, 1)},
                                {.max_rows = 4, .max_tokens = kMaxTokens, .max_pages_per_row = 32});
  Bench replayed(layer, 5, kMaxWindow);
  std::vector<float> x(static_cast<size_t>(kMaxTokens) * shape.projection_dim(), kNan);
  std::vector<float> out(static_cast<size_t>(kMaxTokens) * shape.value_dim(), kNan);
  std::vector<float> workspace(
      static_cast<size_t>(gdn_mix_workspace_floats(shape, step.view().limits)), kNan);
  const GdnMixParams params = replayed.params(x, out, workspace, step.view());
  step.stream().begin_capture();
  gdn_mix(step.stream(), params);
  const CpuGraph graph = step.stream().end_capture();
  EXPECT_TRUE(std::isnan(out[0])) << "a capture ran the op";

  Bench eager(layer, 5, kMaxWindow);
  const std::vector<std::vector<Row>> batches{
      {make_row(70, 0, 1, 1), make_row(1, 0, 2, 2)},
      {make_row(1, 70, 1, 1), make_row(5, 1, 2, 2, 4)},
      {make_row(3, 6, 2, 2, 2, 5), make_row(0, 0, 0, 0), make_row(20, 71, 1, 3)},
      {make_row(1, 91, 3, 3)},
      {},
  };
  for (size_t i = 0; i < batches.size(); ++i) {
    SCOPED_TRACE(i);
    int tokens = 0;
    for (const Row& row : batches[i]) tokens += row.query_len;
    const std::vector<float> input = random_tokens(shape, tokens, 60 + static_cast<unsigned>(i));
    const std::vector<float> expected = eager.run(batches[i], input, {}, kMaxTokens - tokens);
    std::fill(std::copy(input.begin(), input.end(), x.begin()), x.end(), kNan);
    std::fill(out.begin(), out.end(), kNan);
    step.set_rows(batches[i]);
    step.rebuild();
    step.stream().launch(graph);
    EXPECT_EQ(out, expected);
    EXPECT_TRUE(same_bits(replayed.memory().data(), eager.memory().data(),
                          static_cast<int64_t>(eager.memory().size())));
  }
}

}  // namespace
}  // namespace headrace::gdn::test
