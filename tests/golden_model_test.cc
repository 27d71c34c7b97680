// SPDX-License-Identifier: Apache-2.0
// The demo model against what transformers computed in fp32 (tests/golden/demo/golden.json): greedy
// tokens, logits, likelihood of a long text and the caches it leaves.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/model.h"
#include "ops/backend.h"
#include "tests/support/model_driver.h"
#include "tests/support/paths.h"

namespace headrace::test {
namespace {

using model::LayerKind;
using Json = nlohmann::json;

class GoldenModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = model::load_model({.folder = demo_model_dir()}, ops::cpu_backend());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded).release();
    std::ifstream file(golden_dir() + "/demo/golden.json");
    golden_ = new Json(Json::parse(file));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete golden_;
    model_ = nullptr;
    golden_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(golden_, nullptr); }

  static model::Model* model_;
  static Json* golden_;
};

model::Model* GoldenModelTest::model_ = nullptr;
Json* GoldenModelTest::golden_ = nullptr;

std::vector<int32_t> ids(const Json& list) { return list.get<std::vector<int32_t>>(); }

std::vector<int32_t> first(const std::vector<int32_t>& list, int64_t count) {
  return {list.begin(), list.begin() + count};
}

double squared_norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return sum;
}

// Feeds the golden tokens whatever the model would have chosen; compares where the choice is clear.
TEST_F(GoldenModelTest, ChoosesTheGoldenTokens) {
  constexpr double kClearGap = 0.05;
  std::vector<Json> cases;
  for (const char* key : {"greedy", "chat"}) {
    for (const Json& entry : (*golden_)[key]) cases.push_back(entry);
  }
  ASSERT_EQ(cases.size(), 12u);
  ModelDriver driver(*model_, {.max_rows = 12, .max_tokens = 64, .max_len = 256});
  std::vector<int> sequences;
  std::vector<Logits> last;
  for (const Json& entry : cases) {
    sequences.push_back(driver.add_sequence());
    last.push_back(driver.prefill(sequences.back(), ids(entry["ids"]), 64));
  }
  int compared = 0;
  for (size_t position = 0;; ++position) {
    std::vector<DriverRow> rows;
    std::vector<size_t> row_case;
    for (size_t c = 0; c < cases.size(); ++c) {
      const Json& tokens = cases[c]["tokens"];
      if (position >= tokens.size()) continue;
      const int32_t token = tokens[position];
      if (cases[c]["gaps"][position].get<double>() >= kClearGap) {
        ASSERT_EQ(argmax(last[c]), token) << "case " << c << ", position " << position;
        ++compared;
      }
      rows.push_back({.sequence = sequences[c], .tokens = {token}});
      row_case.push_back(c);
    }
    if (rows.empty()) break;
    const auto logits = driver.step(rows);
    for (size_t r = 0; r < rows.size(); ++r) last[row_case[r]] = logits[r].front();
  }
  EXPECT_GT(compared, 500);
}

TEST_F(GoldenModelTest, LogitsAgreeAfterEveryPrefix) {
  const std::vector<int32_t> sequence = ids((*golden_)["sequence"]);
  const int64_t vocab = model_->config().vocab_size;
  for (const Json& entry : (*golden_)["logits"]) {
    const int64_t length = entry["len"];
    ModelDriver driver(*model_, {.max_rows = 1});
    const Logits logits = driver.prefill(driver.add_sequence(), first(sequence, length), 512);
    ASSERT_EQ(static_cast<int64_t>(logits.size()), vocab);
    for (size_t i = 0; i < entry["top_ids"].size(); ++i) {
      const size_t id = entry["top_ids"][i];
      EXPECT_NEAR(logits[id], entry["top_logits"][i].get<double>(), 1e-3)
          << "length " << length << ", token " << id;
    }
    double mean = 0;
    for (const float logit : logits) mean += logit;
    mean /= static_cast<double>(vocab);
    double variance = 0;
    for (const float logit : logits) variance += (logit - mean) * (logit - mean);
    EXPECT_NEAR(mean, entry["mean"].get<double>(), 1e-4);
    EXPECT_NEAR(std::sqrt(variance / static_cast<double>(vocab)), entry["std"].get<double>(), 1e-3);
  }
}

TEST_F(GoldenModelTest, LikelihoodOfALongTextAgrees) {
  const std::vector<int32_t> sequence = ids((*golden_)["sequence"]);
  ModelDriver driver(*model_, {.max_rows = 1});
  const int s = driver.add_sequence();
  double sum = 0;
  for (size_t i = 0; i + 1 < sequence.size(); ++i) {
    const Logits logits = driver.step({{.sequence = s, .tokens = {sequence[i]}}})[0][0];
    const double best = logits[static_cast<size_t>(argmax(logits))];
    double total = 0;
    for (const float logit : logits) total += std::exp(logit - best);
    sum += best + std::log(total) - logits[static_cast<size_t>(sequence[i + 1])];
  }
  const Json& nll = (*golden_)["sequence_nll"];
  ASSERT_EQ(nll["tokens"].get<size_t>(), sequence.size() - 1);
  EXPECT_NEAR(sum / nll["tokens"].get<double>(), nll["mean_nll"].get<double>(), 1e-3);
}

// transformers lays out conv_states [conv_dim, 4], of which the oldest column is not used again,
// recurrent_states [Hv, K, V], and keys and values [Hkv, tokens, D].
TEST_F(GoldenModelTest, CachesAfter130TokensAgree) {
  const std::vector<int32_t> prompt = first(ids((*golden_)["sequence"]), 130);
  ModelDriver driver(*model_, {.max_rows = 1});
  const int s = driver.add_sequence();
  driver.prefill(s, first(prompt, 129), 512);
  const int64_t conv_dim = model_->config().gdn.conv_dim();
  std::vector<std::vector<float>> oldest_columns;  // inputs of token 126
  for (int32_t i = 0; i < model_->config().num_layers_of(LayerKind::kGdn); ++i) {
    const std::vector<float> window = driver.conv_window(s, i);
    oldest_columns.emplace_back(window.begin(), window.begin() + conv_dim);
  }
  driver.prefill(s, {prompt.back()}, 512);

  int32_t num_gdn = 0;
  int32_t num_attention = 0;
  for (const Json& layer : (*golden_)["states_after_130"]) {
    const Json& tensors = layer["tensors"];
    const auto expect = [&](const char* name, double norm, const std::vector<float>& start) {
      const double want = tensors[name]["norm"];
      EXPECT_NEAR(norm, want, 1e-4 * want) << name << " of layer " << layer["layer"];
      for (size_t i = 0; i < tensors[name]["first"].size(); ++i) {
        EXPECT_NEAR(start[i], tensors[name]["first"][i].get<double>(), 1e-4) << name;
      }
    };
    if (layer["kind"] == "linear_attention") {
      const gdn::GdnShape& gdn = model_->config().gdn;
      const std::vector<float> window = driver.conv_window(s, num_gdn);
      const std::vector<float>& oldest = oldest_columns[static_cast<size_t>(num_gdn)];
      const std::vector<float> channel0 = {oldest[0], window[0],
                                           window[static_cast<size_t>(conv_dim)],
                                           window[static_cast<size_t>(2 * conv_dim)]};
      expect("conv_states", std::sqrt(squared_norm(window) + squared_norm(oldest)), channel0);
      const std::vector<float> state = driver.state(s, num_gdn);
      std::vector<float> row0;  // S[head 0][k = 0][v = 0, 1, …]
      for (int32_t v = 0; v < gdn.v_dim; ++v) {
        row0.push_back(state[static_cast<size_t>(v * gdn.k_dim)]);
      }
      expect("recurrent_states", std::sqrt(squared_norm(state)), row0);
      ++num_gdn;
    } else {
      const std::vector<float> keys = driver.keys(s, num_attention);
      const std::vector<float> values = driver.values(s, num_attention);
      expect("keys", std::sqrt(squared_norm(keys)), keys);
      expect("values", std::sqrt(squared_norm(values)), values);
      ++num_attention;
    }
  }
  EXPECT_EQ(num_gdn, 6);
  EXPECT_EQ(num_attention, 2);
}

}  // namespace
}  // namespace headrace::test
