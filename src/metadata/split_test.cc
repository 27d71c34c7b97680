// SPDX-License-Identifier: Apache-2.0
// The split of decode work: its arithmetic over whole ranges, and ragged batches key by key.
#include "metadata/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "metadata/build_split.h"
#include "tensor/buffer.h"
#include "tests/support/step_builder.h"
#include "tests/support/step_reference.h"

namespace headrace::metadata {
namespace {

using test::TestRow;
using test::TestStep;
using ::testing::ElementsAre;

TestRow decode_row(int32_t seq_len) { return {.query_len = 1, .context_len = seq_len - 1}; }

Buffer allocate(int64_t size_bytes) {
  auto buffer = Buffer::allocate(Device::kCpu, static_cast<size_t>(size_bytes));
  if (!buffer.ok()) throw std::runtime_error(buffer.status().message());
  return std::move(buffer).value();
}

// A split of a test step, made by build_split into arrays of its own.
struct OwnSplit {
  OwnSplit(TestStep& step, const SplitShape& shape)
      : memory(allocate(split_arrays_bytes(step.view().limits, shape))),
        arrays(split_arrays_in(memory.data(), step.view().limits, shape)),
        view(split_view(step.view(), shape, arrays)) {
    std::memset(memory.data(), 0xA5, memory.size_bytes());
    build_split(step.stream(), step.view(), shape, arrays);
  }
  int32_t num_partials() const { return arrays.partial_start[view.num_rows]; }
  std::vector<int32_t> unit_starts() const {
    return {arrays.unit_start, arrays.unit_start + view.num_rows + 1};
  }

  Buffer memory;
  SplitArrays arrays;
  SplitView view;
};

std::vector<SplitPiece> pieces_of(const SplitView& split, int32_t worker) {
  std::vector<SplitPiece> pieces;
  SplitWalk walk(split, worker);
  for (SplitPiece piece; walk.next(&piece);) pieces.push_back(piece);
  return pieces;
}

std::vector<SplitPiece> pieces_of_row(const SplitView& split, int32_t row) {
  std::vector<SplitPiece> pieces;
  for (int32_t w = 0; w < split.shape.num_workers; ++w) {
    for (const SplitPiece& piece : pieces_of(split, w)) {
      if (piece.row == row) pieces.push_back(piece);
    }
  }
  return pieces;
}

TEST(Split, RangesOfWorkersAreConsecutiveAndEven) {
  for (int32_t units = 1; units <= 150; ++units) {
    for (int32_t workers = 1; workers <= 40; ++workers) {
      const int32_t active = active_workers(SplitShape{workers}, units);
      ASSERT_EQ(active, std::min(units, workers));
      ASSERT_EQ(worker_begin(units, active, 0), 0);
      int32_t unit = 0;
      for (int32_t w = 0; w < workers; ++w) {
        const int32_t end = worker_begin(units, active, w + 1);
        const int32_t own = end - worker_begin(units, active, w);
        ASSERT_TRUE(w >= active ? own == 0 : own == units / active || own == units / active + 1);
        for (; unit < end; ++unit) ASSERT_EQ(worker_of(units, active, unit), w);
      }
      ASSERT_EQ(unit, units);
    }
  }
}

TEST(Split, RangesOfTheLargestCounts) {
  constexpr int32_t kUnits = INT32_MAX;
  for (int32_t workers : {1, 132, 100000, INT32_MAX - 1}) {
    const int32_t active = active_workers(SplitShape{workers}, kUnits);
    EXPECT_EQ(worker_begin(kUnits, active, active), kUnits);
    for (int32_t w : {0, workers / 3, workers - 1}) {
      const int32_t begin = worker_begin(kUnits, active, w);
      EXPECT_EQ(worker_of(kUnits, active, begin), w);
      if (begin > 0) {
        EXPECT_EQ(worker_of(kUnits, active, begin - 1), w - 1);
      }
    }
  }
}

TEST(Split, FirstKeyIsTheFirstThatAnyQuerySees) {
  for (int32_t context_len = 1; context_len <= 30; ++context_len) {
    for (int32_t query_len : {1, 2, 5}) {
      for (int32_t window = 0; window <= 40; ++window) {
        int32_t first = context_len + query_len;
        for (int32_t q = context_len; q < context_len + query_len; ++q) {
          for (int32_t key = q; key >= 0; --key) {
            if (window == 0 || q - key < window) first = std::min(first, key);
          }
        }
        ASSERT_EQ(first_key(context_len, window), first) << context_len << " window " << window;
      }
    }
  }
}

// The example that docs/metadata.md draws.
TEST(Split, WorkedExample) {
  TestStep step({decode_row(100), decode_row(20), {}, decode_row(300), {.query_len = 40}},
                {.num_workers = 3, .split_tokens = 64});
  const SplitView split = split_view(step.view());
  EXPECT_THAT(std::vector<int32_t>(split.unit_start, split.unit_start + 6),
              ElementsAre(0, 2, 3, 3, 8, 8));
  EXPECT_THAT(std::vector<int32_t>(split.partial_start, split.partial_start + 6),
              ElementsAre(0, 1, 2, 2, 4, 4));
  // Ranges of units: [0, 2), [2, 5), [5, 8).
  const auto w0 = pieces_of(split, 0);
  ASSERT_EQ(w0.size(), 1u);
  EXPECT_EQ(w0[0].row, 0);
  EXPECT_EQ(w0[0].key_begin, 0);
  EXPECT_EQ(w0[0].key_end, 100);
  EXPECT_EQ(w0[0].partial, 0);
  EXPECT_TRUE(w0[0].whole);
  const auto w1 = pieces_of(split, 1);
  ASSERT_EQ(w1.size(), 2u);
  EXPECT_EQ(w1[0].row, 1);
  EXPECT_EQ(w1[0].key_end, 20);
  EXPECT_EQ(w1[1].row, 3);
  EXPECT_EQ(w1[1].key_begin, 0);
  EXPECT_EQ(w1[1].key_end, 128);
  EXPECT_EQ(w1[1].partial, 2);
  EXPECT_FALSE(w1[1].whole);
  const auto w2 = pieces_of(split, 2);
  ASSERT_EQ(w2.size(), 1u);
  EXPECT_EQ(w2[0].key_begin, 128);
  EXPECT_EQ(w2[0].key_end, 300);
  EXPECT_EQ(w2[0].unit_begin, 2);
  EXPECT_EQ(w2[0].unit_end, 5);
  EXPECT_EQ(w2[0].partial, 3);
}

TEST(Split, EveryKeyOnceCountedKeyByKey) {
  TestStep step({decode_row(1),
                 {},
                 decode_row(700),
                 {.query_len = 30},
                 decode_row(64),
                 {.query_len = 4, .context_len = 61, .num_drafts = 3},
                 decode_row(65),
                 {}});
  for (int32_t window : {0, 1, 2, 63, 64, 65, 640, 5000}) {
    for (int32_t unit_tokens : {1, 16, 64, 1000}) {
      for (int32_t workers : {1, 2, 5, 132, 1000}) {
        for (bool fixed : {false, true}) {
          const OwnSplit split(step, {workers, unit_tokens, window, fixed});
          std::vector<std::vector<int>> covered(8, std::vector<int>(700, 0));
          std::vector<int> partials(static_cast<size_t>(split.num_partials()), 0);
          for (int32_t w = 0; w < workers; ++w) {
            for (const SplitPiece& piece : pieces_of(split.view, w)) {
              ++partials.at(static_cast<size_t>(piece.partial));
              for (int32_t key = piece.key_begin; key < piece.key_end; ++key) {
                ++covered[static_cast<size_t>(piece.row)].at(static_cast<size_t>(key));
              }
            }
          }
          EXPECT_THAT(partials, testing::Each(1));
          for (int32_t r = 0; r < 8; ++r) {
            const StepView& v = step.view();
            const bool works = v.kind[r] == RowKind::kDecode || v.kind[r] == RowKind::kVerify;
            for (int32_t key = 0; key < 700; ++key) {
              const bool seen =
                  works && key < v.seq_len[r] && (window == 0 || v.context_len[r] - key < window);
              ASSERT_EQ(covered[static_cast<size_t>(r)][static_cast<size_t>(key)], seen ? 1 : 0)
                  << "row " << r << " key " << key << " window " << window << " unit "
                  << unit_tokens << " workers " << workers << " fixed " << fixed;
            }
          }
        }
      }
    }
  }
}

TEST(Split, OneGiantRowAmongShortOnesIsSharedByAllWorkers) {
  std::vector<TestRow> rows(128, decode_row(30));
  rows[77] = decode_row(131072);
  TestStep step(rows, {.num_workers = 132, .split_tokens = 64});
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
  // 2048 units of the giant and 127 others over 132 workers: at most 17 each.
  EXPECT_GE(pieces_of_row(split_view(step.view()), 77).size(), 2048u / 17u);
  EXPECT_EQ(pieces_of_row(split_view(step.view()), 76).size(), 1u);
}

// A planner that counts an empty row as nothing and then gives it a piece loses the long row's.
TEST(Split, EmptyRowsBeforeBetweenAndAfterALongOneTakeNothing) {
  struct Batch {
    int32_t num_empty, page_size, long_pages;
  };
  for (const Batch& batch : {Batch{59, 1, 6600}, {200, 16, 4096}, {20, 16, 4096}}) {
    for (int32_t at : {0, batch.num_empty / 2, batch.num_empty}) {
      std::vector<TestRow> rows(static_cast<size_t>(batch.num_empty));
      rows.insert(rows.begin() + at, decode_row(batch.long_pages * batch.page_size));
      TestStep step(rows, {.page_size = batch.page_size, .num_workers = 66, .split_tokens = 16});
      EXPECT_EQ(test::step_mismatch(step.arena()), "");
      EXPECT_EQ(step.view().counts->num_partials, 66);
      EXPECT_EQ(step.view().counts->num_split_units,
                batch.long_pages * batch.page_size / 16 + (batch.page_size == 1 ? 1 : 0));
    }
  }
}

TEST(Split, TheBoundOfPartialResultsIsReached) {
  // Two rows of 3 units over 3 workers of 2: both edges lie inside a row.
  TestStep step({decode_row(48), decode_row(48)}, {.num_workers = 3, .split_tokens = 16});
  EXPECT_EQ(step.view().counts->num_partials, 4);
  EXPECT_EQ(max_partials(step.view().limits, split_shape(step.view().limits)), 4);

  const SplitShape fixed{3, 16, 0, true};
  EXPECT_EQ(OwnSplit(step, fixed).num_partials(), 6);
  EXPECT_EQ(max_partials(step.view().limits, fixed), 6);
}

TEST(Split, EdgesOfUnits) {
  for (int32_t len : {1, 15, 16, 17, 31, 32, 33}) {
    TestStep step({decode_row(len == 1 ? 2 : len)}, {.num_workers = 100, .split_tokens = 16});
    const int32_t units = len <= 16 ? 1 : len <= 32 ? 2 : 3;
    EXPECT_EQ(step.view().counts->num_split_units, units) << len;
    EXPECT_EQ(step.view().counts->num_partials, units) << len;
    EXPECT_EQ(test::step_mismatch(step.arena()), "");
  }
}

TEST(Split, AWindowDropsTheUnitsBeforeItsFirstKey) {
  TestStep step({decode_row(1000), decode_row(10)}, {.num_workers = 4, .split_tokens = 64});
  const OwnSplit split(step, {4, 64, 100, false});
  // Keys 900 … 999 lie in units 14 and 15.
  EXPECT_THAT(split.unit_starts(), ElementsAre(0, 2, 3));
  const auto pieces = pieces_of_row(split.view, 0);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].unit_begin, 14);
  EXPECT_EQ(pieces[0].key_begin, 900);
  EXPECT_EQ(pieces[1].key_end, 1000);
  EXPECT_EQ(test::split_mismatch(step.view(), split.view), "");
  // The step's own split is not touched.
  EXPECT_EQ(test::step_mismatch(step.arena()), "");
}

TEST(Split, TheFixedCutOfARowDoesNotDependOnTheBatch) {
  const TestRow row = decode_row(1000);
  const auto cut_of = [](TestStep& step, int32_t r, int32_t workers, int32_t window) {
    const OwnSplit split(step, {workers, 128, window, true});
    EXPECT_EQ(test::split_mismatch(step.view(), split.view), "");
    std::vector<std::pair<int32_t, int32_t>> keys;
    for (const SplitPiece& piece : pieces_of_row(split.view, r)) {
      keys.emplace_back(piece.key_begin, piece.key_end);
    }
    return keys;
  };
  TestStep alone({row});
  TestStep among({decode_row(5000), {}, row, decode_row(3), {.query_len = 9}});
  for (int32_t window : {0, 300}) {
    const auto expected = cut_of(alone, 0, 1, window);
    EXPECT_EQ(expected.size(), window == 0 ? 8u : 3u);
    for (int32_t workers : {1, 2, 7, 132}) {
      EXPECT_EQ(cut_of(alone, 0, workers, window), expected);
      EXPECT_EQ(cut_of(among, 2, workers, window), expected);
    }
  }
}

TEST(Split, BuildSplitIsOneNodeThatFollowsTheStep) {
  TestStep step({decode_row(40), decode_row(40)}, {.max_pages_per_row = 20});
  OwnSplit split(step, {4, 16, 20, false});
  step.stream().begin_capture();
  build(step.stream(), step.arena());
  build_split(step.stream(), step.view(), split.view.shape, split.arrays);
  const CpuGraph graph = step.stream().end_capture();
  EXPECT_EQ(graph.num_nodes(), 2u);
  for (int32_t len : {2, 300, 16, 17}) {
    step.set_rows({decode_row(len), decode_row(318 - len)});
    step.stream().launch(graph);
    EXPECT_EQ(test::split_mismatch(step.view(), split.view), "");
  }
}

}  // namespace
}  // namespace headrace::metadata
