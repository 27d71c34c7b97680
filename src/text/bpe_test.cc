// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging against the definition (merge the pair of lowest rank, the leftmost first,
// until none is left), and its growth with the length of a word.
#include "text/bpe.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <random>

#include "headrace/tokenizer.h"
#include "tests/support/paths.h"
#include "tests/support/scale.h"
#include "text/byte_level.h"

namespace headrace::text {
namespace {

using Ids = std::vector<int32_t>;

// A model over the letters a to d with random merges; `pairs` are in order of rank.
struct RandomModel {
  BpeModel model;
  std::vector<std::pair<int32_t, int32_t>> pairs;

  explicit RandomModel(std::mt19937& random) {
    model.byte_ids.fill(-1);
    std::vector<std::string> tokens;
    const auto add_token = [&](const std::string& token) {
      const auto id = static_cast<int32_t>(tokens.size());
      if (model.vocabulary.add(token, id) != Vocabulary::Added::kOk)
        return model.vocabulary.find(token);
      tokens.push_back(token);
      return id;
    };
    for (const char letter : std::string("abcd")) {
      model.byte_ids[static_cast<uint8_t>(letter)] = add_token(std::string(1, letter));
    }
    const size_t num_merges = random() % 30;
    model.merges.reserve(num_merges);
    for (size_t rank = 0; rank < num_merges; ++rank) {
      const auto left = static_cast<int32_t>(random() % tokens.size());
      const auto right = static_cast<int32_t>(random() % tokens.size());
      // A pair that comes twice has its last rank.
      std::replace(pairs.begin(), pairs.end(), std::pair(left, right), std::pair(-1, -1));
      pairs.emplace_back(left, right);
      const int32_t merged =
          add_token(tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)]);
      model.merges.add(left, right, {static_cast<uint32_t>(rank), merged});
    }
  }

  Ids encode_by_definition(const std::string& word) const {
    Ids ids;
    for (const char c : word) ids.push_back(model.byte_ids[static_cast<uint8_t>(c)]);
    while (true) {
      size_t best_rank = pairs.size();
      size_t best_at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = std::find(pairs.begin(), pairs.end(), std::pair(ids[i], ids[i + 1]));
        const auto rank = static_cast<size_t>(found - pairs.begin());
        if (rank < best_rank) {
          best_rank = rank;
          best_at = i;
        }
      }
      if (best_rank == pairs.size()) return ids;
      ids[best_at] = model.merges.find(ids[best_at], ids[best_at + 1]).id;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(best_at) + 1);
    }
  }
};

TEST(Bpe, MergesByDefinition) {
  std::mt19937 random(7);
  for (int i = 0; i < test::scaled(2000); ++i) {
    const RandomModel random_model(random);
    BpeEncoder encoder(random_model.model);
    for (int k = 0; k < 10; ++k) {
      std::string word(random() % 40, 'a');
      const uint32_t num_letters = 1 + random() % 4;
      for (char& c : word) c = static_cast<char>('a' + random() % num_letters);
      Ids ids = {-7};  // what is there stays
      encoder.encode(word, ids);
      ASSERT_EQ(ids.front(), -7);
      ids.erase(ids.begin());
      ASSERT_EQ(ids, random_model.encode_by_definition(word)) << word;
    }
  }
}

TEST(Bpe, UnknownBytes) {
  std::mt19937 random(8);
  RandomModel random_model(random);
  BpeModel& model = random_model.model;
  const auto encode = [&](std::string_view word) {
    Ids ids;
    BpeEncoder(model).encode(word, ids);
    return ids;
  };
  EXPECT_EQ(encode("xx"), Ids());  // left out, as Hugging Face does without an unk_token
  EXPECT_EQ(encode(""), Ids());
  model.unknown_id = 99;
  EXPECT_EQ(encode("xxaxx"), (Ids{99, 99, 0, 99, 99}));
  model.fuse_unknown = true;
  EXPECT_EQ(encode("xxaxx"), (Ids{99, 0, 99}));
}

TEST(Bpe, IgnoreMergesTakesWholeWords) {
  BpeModel model;
  model.byte_ids.fill(-1);
  const std::string spelled = std::string(byte_to_char(' ')) + "ab";
  for (const auto& [token, id] :
       {std::pair<std::string, int32_t>{std::string(byte_to_char(' ')), 0},
        {"a", 1},
        {"b", 2},
        {spelled, 3}}) {
    ASSERT_EQ(model.vocabulary.add(token, id), Vocabulary::Added::kOk);
  }
  model.byte_ids[' '] = 0;
  model.byte_ids['a'] = 1;
  model.byte_ids['b'] = 2;
  Ids ids;
  BpeEncoder(model).encode(" ab", ids);
  EXPECT_EQ(ids, (Ids{0, 1, 2}));
  model.ignore_merges = true;
  ids.clear();
  BpeEncoder encoder(model);
  encoder.encode(" ab", ids);
  encoder.encode("ab", ids);
  EXPECT_EQ(ids, (Ids{3, 1, 2}));
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Bpe, OneLongWordTakesTimeInProportion) {
  const auto tokenizer = Tokenizer::load(test::demo_model_dir());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  std::mt19937 random(9);
  std::string letters(1 << 20, 'a');
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  for (const std::string& word : {letters, std::string(1 << 20, 'e')}) {
    const auto seconds = [&](size_t size) {
      double best = 1e9;
      for (int i = 0; i < 3; ++i) {
        const double start = cpu_seconds();
        const auto ids = (*tokenizer)->encode(std::string_view(word).substr(0, size));
        best = std::min(best, cpu_seconds() - start);
        EXPECT_EQ((*tokenizer)->decode(*ids, false).size(), size);
      }
      return best;
    };
    const double of_short = seconds(1 << 16);
    const double of_long = seconds(1 << 20);
    RecordProperty("seconds_for_1_mib", std::to_string(of_long));
    // 16 times the length: 16 in proportion, 256 if the work were quadratic; caches take their
    // part.
    EXPECT_LT(of_long, 64 * of_short) << of_long << " s against " << of_short << " s";
  }
}

}  // namespace
}  // namespace headrace::text
