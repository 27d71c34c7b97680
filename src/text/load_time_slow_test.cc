// SPDX-License-Identifier: Apache-2.0
// How long a tokenizer takes to load: part of every start of the program.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <unordered_set>

#include "headrace/tokenizer.h"
#include "tests/support/paths.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_level.h"

namespace headrace::text {
namespace {

#ifdef HEADRACE_SANITIZER
constexpr double kSlack = 30;
#else
constexpr double kSlack = 3;  // for machines that are slower or shared
#endif

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Load>
double best_of_three(Load load) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_seconds();
    const auto tokenizer = load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

// As many tokens and merges as Qwen2 has, in about 11 MB.
std::string large_file() {
  std::mt19937 random(12);
  std::vector<std::string> tokens;
  std::unordered_set<std::string> known;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back(byte_to_char(static_cast<uint8_t>(byte)));
  }
  nlohmann::json merges = nlohmann::json::array();
  while (tokens.size() < 151'643) {
    const std::string& left = tokens[random() % tokens.size()];
    const std::string& right = tokens[random() % tokens.size()];
    const std::string merged = left + right;
    if (merged.size() > 24 || !known.insert(merged).second) continue;
    merges.push_back(nlohmann::json::array({left, right}));
    tokens.push_back(merged);
  }
  nlohmann::json vocab = nlohmann::json::object();
  for (size_t id = 0; id < tokens.size(); ++id) vocab[tokens[id]] = id;
  const nlohmann::json file = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  return file.dump(1);
}

TEST(TokenizerLoadTime, OfTheDemoModel) {
  const double seconds = best_of_three([] { return Tokenizer::load(test::demo_model_dir()); });
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 0.020 * kSlack);
}

TEST(TokenizerLoadTime, OfALargeOne) {
  const std::string content = large_file();
  const double seconds = best_of_three([&] { return make_bpe_tokenizer(content); });
  RecordProperty("bytes", std::to_string(content.size()));
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 0.3 * kSlack);
}

}  // namespace
}  // namespace headrace::text
