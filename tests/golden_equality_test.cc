// SPDX-License-Identifier: Apache-2.0
// The two classes of equality, held by whole models. Bit-equal: logits, keys, values and states do
// not depend on what else is in the batch, on row order, page size, threads, poison, replay, or
// chunk sizes that are multiples of 64. Rounding-equal: other chunk cuts, resume by recompute and
// verify rows agree within 1e-4, with equal tokens wherever the gap is ≥ 1e-3.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "model/model.h"
#include "ops/backend.h"
#include "tests/support/model_driver.h"
#include "tests/support/paths.h"
#include "tests/support/scale.h"

namespace headrace::test {
namespace {

constexpr double kRounding = 1e-4;
constexpr float kClearGap = 1e-3f;

struct Outcome {
  std::vector<Logits> logits;  // after the prompt, then after each following token
  std::vector<float> cache;    // ModelDriver::everything
  bool operator==(const Outcome&) const = default;
};

class EqualityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto loaded =
        model::load_model({.folder = golden_dir() + "/tiny/" + GetParam()}, ops::cpu_backend());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded);
  }

  std::vector<int32_t> random_tokens(int32_t count, uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back(
          static_cast<int32_t>(random() % static_cast<uint64_t>(model_->config().vocab_size)));
    }
    return tokens;
  }

  // The prompt in chunks, then the other tokens one by one, alone in the batch.
  Outcome run(const DriverOptions& options, int32_t chunk_tokens = 512) const {
    ModelDriver driver(*model_, options);
    const int s = driver.add_sequence();
    Outcome outcome;
    outcome.logits.push_back(driver.prefill(s, prompt(), chunk_tokens));
    for (const int32_t token : following()) {
      outcome.logits.push_back(driver.step({{.sequence = s, .tokens = {token}}})[0][0]);
    }
    outcome.cache = driver.everything(s);
    return outcome;
  }

  std::vector<int32_t> prompt() const { return random_tokens(150, 1); }
  std::vector<int32_t> following() const { return random_tokens(6, 2); }

  std::unique_ptr<model::Model> model_;
};

void expect_rounding_equal(const std::vector<Logits>& a, const std::vector<Logits>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(max_abs_difference(a[i], b[i]), kRounding) << "logits " << i;
    if (gap(a[i]) < kClearGap) continue;
    EXPECT_EQ(argmax(a[i]), argmax(b[i])) << "logits " << i;
  }
}

void expect_rounding_equal(const Outcome& a, const Outcome& b) {
  expect_rounding_equal(a.logits, b.logits);
  EXPECT_LE(max_abs_difference(a.cache, b.cache), kRounding);
}

TEST_P(EqualityTest, PageSizeChangesNoBit) {
  const Outcome want = run({.page_size = 16});
  EXPECT_FALSE(std::any_of(want.cache.begin(), want.cache.end(), [](float x) { return x != x; }));
  for (const int32_t page_size : {1, 8, 64, 256}) {
    EXPECT_TRUE(run({.page_size = page_size}) == want) << "page size " << page_size;
  }
}

TEST_P(EqualityTest, NumberOfThreadsChangesNoBit) {
  const Outcome want = run({.num_threads = 1});
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(run({.num_threads = threads}) == want) << threads << " threads";
  }
}

TEST_P(EqualityTest, ChunksOfMultiplesOf64ChangeNoBit) {
  const Outcome want = run({}, 512);
  for (const int32_t chunk : {64, 128}) {
    EXPECT_TRUE(run({}, chunk) == want) << "chunks of " << chunk;
  }
}

TEST_P(EqualityTest, OtherChunksAgreeToRounding) {
  const Outcome want = run({}, 512);
  for (const int32_t chunk : {1, 7, 63, 65, 100}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    expect_rounding_equal(run({}, chunk), want);
  }
}

TEST_P(EqualityTest, ReplayOfOneGraphChangesNoBit) {
  const Outcome want = run({}, 64);
  EXPECT_TRUE(run({.replay = true}, 64) == want);
}

// The same sequence among others: prompts that start, prompts that go on, decode rows, padding
// rows, in a different order at every step, with neighbours that come and go.
TEST_P(EqualityTest, BatchCompositionAndOrderChangeNoBit) {
  for (const bool replay : {false, true}) {
    const Outcome want = run({}, 64);
    ModelDriver driver(*model_,
                       {.max_rows = 8, .max_len = 512, .num_threads = 2, .replay = replay});
    std::mt19937_64 random(3);
    struct Neighbour {
      int sequence;
      int32_t left;
    };
    std::vector<Neighbour> neighbours;
    const int s = driver.add_sequence();
    const std::vector<int32_t> tokens = prompt();
    const std::vector<int32_t> after = following();
    Outcome got;
    size_t fed = 0;
    while (got.logits.size() < after.size() + 1) {
      while (neighbours.size() < 5) {
        neighbours.push_back({driver.add_sequence(), static_cast<int32_t>(1 + random() % 4)});
      }
      std::vector<DriverRow> rows;
      DriverRow mine{.sequence = s};
      if (fed < tokens.size()) {
        const size_t count = std::min<size_t>(64, tokens.size() - fed);
        mine.tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(fed),
                           tokens.begin() + static_cast<ptrdiff_t>(fed + count));
        fed += count;
        mine.emit = fed == tokens.size();
      } else {
        mine.tokens = {after[got.logits.size() - 1]};
      }
      rows.push_back(mine);
      rows.push_back({});  // padding
      for (Neighbour& neighbour : neighbours) {
        const int32_t length = random() % 2 == 0 ? 1 : static_cast<int32_t>(random() % 70 + 1);
        rows.push_back({.sequence = neighbour.sequence, .tokens = random_tokens(length, random())});
        --neighbour.left;
      }
      std::shuffle(rows.begin(), rows.end(), random);
      const auto logits = driver.step(rows);
      for (size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].sequence == s && rows[r].emit) got.logits.push_back(logits[r].front());
      }
      for (size_t i = neighbours.size(); i-- > 0;) {
        if (neighbours[i].left > 0) continue;
        driver.release(neighbours[i].sequence);  // leaves NaN behind
        neighbours.erase(neighbours.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    got.cache = driver.everything(s);
    EXPECT_TRUE(got == want) << (replay ? "replayed" : "eager");
  }
}

// One captured graph, many steps of other lengths, kinds and row counts: each equals eager.
TEST_P(EqualityTest, ReplayWithOtherLengthsEqualsEager) {
  const DriverOptions options{.max_rows = 6, .max_tokens = 256, .max_len = 512, .max_window = 4};
  DriverOptions replay_options = options;
  replay_options.replay = true;
  ModelDriver eager(*model_, options);
  ModelDriver replay(*model_, replay_options);
  std::mt19937_64 random(4);
  std::vector<int> sequences;
  for (int i = 0; i < 4; ++i) {
    sequences.push_back(eager.add_sequence());
    ASSERT_EQ(replay.add_sequence(), sequences.back());
  }
  for (int step = 0; step < scaled(30); ++step) {
    std::vector<DriverRow> rows;
    for (const int s : sequences) {
      if (random() % 4 == 0 || eager.length(s) > 400) continue;
      DriverRow row{.sequence = s};
      const uint64_t kind = eager.length(s) == 0 ? 2 : random() % 3;
      row.num_drafts = kind == 1 ? static_cast<int32_t>(1 + random() % 3) : 0;
      const int32_t length = kind == 2 ? static_cast<int32_t>(1 + random() % 60) : 1;
      row.tokens = random_tokens(length + row.num_drafts, random());
      row.emit = random() % 4 != 0;
      rows.push_back(row);
    }
    if (random() % 2 == 0) rows.push_back({});
    ASSERT_EQ(replay.step(rows), eager.step(rows)) << "step " << step;
    for (const DriverRow& row : rows) {
      if (row.num_drafts == 0) continue;
      const auto kept =
          static_cast<int32_t>(1 + random() % static_cast<uint64_t>(row.tokens.size()));
      eager.accept(row.sequence, kept);
      replay.accept(row.sequence, kept);
    }
  }
  for (const int s : sequences) EXPECT_EQ(replay.everything(s), eager.everything(s));
}

// A preempted sequence feeds all its tokens again, in other chunks, and goes on.
TEST_P(EqualityTest, ResumeByRecomputeAgreesToRounding) {
  ModelDriver driver(*model_, {.max_rows = 2});
  const std::vector<int32_t> tokens = prompt();
  const std::vector<int32_t> after = following();
  const int straight = driver.add_sequence();
  int resumed = driver.add_sequence();
  driver.prefill(straight, tokens, 64);
  driver.prefill(resumed, tokens, 64);
  std::vector<int32_t> history = tokens;
  std::vector<Logits> want;
  std::vector<Logits> got;
  for (size_t i = 0; i < after.size(); ++i) {
    if (i == 3) {
      driver.release(resumed);
      resumed = driver.add_sequence();
      driver.prefill(resumed, history, 48);
    }
    const auto logits = driver.step({{.sequence = straight, .tokens = {after[i]}},
                                     {.sequence = resumed, .tokens = {after[i]}}});
    want.push_back(logits[0][0]);
    got.push_back(logits[1][0]);
    history.push_back(after[i]);
  }
  expect_rounding_equal(got, want);
  EXPECT_LE(max_abs_difference(driver.everything(resumed), driver.everything(straight)), kRounding);
}

// Verify rows with drafts that are right for 0, 1, … of their length, window after window, against
// plain decode of the same tokens. Wrong drafts must leave no trace.
TEST_P(EqualityTest, VerifyAgreesWithPlainDecode) {
  constexpr int32_t kDrafts = 3;
  ModelDriver driver(*model_, {.max_rows = 2, .max_window = 1 + kDrafts});
  const std::vector<int32_t> truth = random_tokens(40, 5);
  const int plain = driver.add_sequence();
  const int verified = driver.add_sequence();
  driver.prefill(plain, prompt(), 64);
  driver.prefill(verified, prompt(), 64);
  std::vector<Logits> want;
  for (const int32_t token : truth) {
    want.push_back(driver.step({{.sequence = plain, .tokens = {token}}})[0][0]);
  }
  std::vector<Logits> got;
  std::mt19937_64 random(6);
  while (got.size() < truth.size()) {
    const size_t done = got.size();
    const auto left = static_cast<int32_t>(truth.size() - done);
    const int32_t drafts = std::min(static_cast<int32_t>(random() % (kDrafts + 1)), left - 1);
    const int32_t right = static_cast<int32_t>(random() % static_cast<uint64_t>(drafts + 1));
    std::vector<int32_t> window(truth.begin() + static_cast<ptrdiff_t>(done),
                                truth.begin() + static_cast<ptrdiff_t>(done) + 1 + drafts);
    for (size_t i = static_cast<size_t>(right) + 1; i < window.size(); ++i) {
      window[i] = (window[i] + 1) % model_->config().vocab_size;
    }
    const auto logits =
        driver.step({{.sequence = verified, .tokens = window, .num_drafts = drafts}})[0];
    ASSERT_EQ(logits.size(), window.size());
    for (int32_t i = 0; i <= right; ++i) got.push_back(logits[static_cast<size_t>(i)]);
    if (drafts > 0) driver.accept(verified, 1 + right);
  }
  expect_rounding_equal(got, want);
  // A plain step replays what is pending, after which the caches are those of plain decode.
  const auto last = driver.step(
      {{.sequence = plain, .tokens = {truth[0]}}, {.sequence = verified, .tokens = {truth[0]}}});
  expect_rounding_equal({last[1][0]}, {last[0][0]});
  EXPECT_LE(max_abs_difference(driver.everything(verified), driver.everything(plain)), kRounding);
}

// A pending window may also be followed by a prefill row.
TEST_P(EqualityTest, PrefillAfterVerifyAgreesWithPlain) {
  ModelDriver driver(*model_, {.max_rows = 2, .max_window = 4});
  const std::vector<int32_t> more = random_tokens(70, 7);
  const int plain = driver.add_sequence();
  const int verified = driver.add_sequence();
  driver.prefill(plain, prompt(), 64);
  driver.prefill(verified, prompt(), 64);
  driver.step({{.sequence = verified, .tokens = {9, 8, 7, 6}, .num_drafts = 3}});
  driver.accept(verified, 2);
  driver.prefill(plain, {9, 8}, 64);
  const Logits want = driver.prefill(plain, more, 64);
  const Logits got = driver.prefill(verified, more, 64);
  expect_rounding_equal({got}, {want});
  EXPECT_LE(max_abs_difference(driver.everything(verified), driver.everything(plain)), kRounding);
}

// States kept inside a scan, at every multiple of 64, are those of a scan that ends there; a
// sequence that starts from one, which it must leave as it is, goes on bit for bit.
TEST_P(EqualityTest, ResumeFromCheckpointChangesNoBit) {
  ModelDriver driver(*model_, {.max_rows = 4, .num_threads = 2});
  const std::vector<int32_t> tokens = random_tokens(200, 8);
  const int straight = driver.add_sequence();
  const Logits want =
      driver.step({{.sequence = straight, .tokens = tokens, .checkpoints = {64, 128, 192}}})[0][0];
  for (const int32_t position : {64, 128, 192, 64}) {
    const int resumed = driver.resume(straight, position);
    const std::vector<int32_t> rest(tokens.begin() + position, tokens.end());
    EXPECT_TRUE(driver.prefill(resumed, rest, 512) == want) << "from " << position;
    EXPECT_TRUE(driver.everything(resumed) == driver.everything(straight)) << "from " << position;
    driver.release(resumed);
  }
}

// A copied sequence goes its own way and leaves the original alone.
TEST_P(EqualityTest, ForkedSequencesDoNotMeet) {
  ModelDriver driver(*model_, {.max_rows = 2});
  const int original = driver.add_sequence();
  driver.prefill(original, prompt(), 64);
  const int copy = driver.fork(original);
  const std::vector<float> before = driver.everything(original);
  ASSERT_EQ(driver.everything(copy), before);
  driver.prefill(copy, following(), 64);
  EXPECT_EQ(driver.everything(original), before);
}

INSTANTIATE_TEST_SUITE_P(Tiny, EqualityTest,
                         testing::Values("llama_gqa_untied", "qwen3_5", "qwen3_5_k_ne_v",
                                         "real_heads"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace headrace::test
