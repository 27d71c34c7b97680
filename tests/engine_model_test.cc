// SPDX-License-Identifier: Apache-2.0
// The engine on the demo model: golden texts through the public API, and logits and states that are
// equal to the last bit whatever the batch, the arrival order, the page size, the threads and the
// token budget, with NaN in everything that is free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <latch>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/engine_test_util.h"
#include "headrace/engine.h"
#include "model/model.h"
#include "ops/backend.h"
#include "tests/support/paths.h"

namespace headrace {
namespace {

using engine::Heard;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const Json& golden() {
  static const Json* json = [] {
    std::ifstream file(test::golden_dir() + "/demo/golden.json");
    return new Json(Json::parse(file));
  }();
  return *json;
}

std::vector<int32_t> ids_of(const Json& list) { return list.get<std::vector<int32_t>>(); }

// What one request hears when nothing else runs.
Heard run_alone(Engine& engine, const Request& request) {
  Heard heard;
  const auto id = engine.submit(request, [&](const RequestUpdate& u) { heard.hear(u); });
  EXPECT_TRUE(id.ok()) << id.status().message();
  engine.wait_idle();
  return heard;
}

// ---- The public API on models/demo ----

class EngineDemoTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = Engine::load({.model = test::demo_model_dir(), .max_model_len = 1024});
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    engine_ = std::move(*loaded).release();
  }
  static void TearDownTestSuite() {
    delete engine_;
    engine_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(engine_, nullptr); }

  static Engine* engine_;
};
Engine* EngineDemoTest::engine_ = nullptr;

TEST_F(EngineDemoTest, ContinuesTheGoldenPromptsAllAtOnce) {
  const Json& cases = golden()["greedy"];
  ASSERT_EQ(cases.size(), 8u);
  std::vector<Heard> heard(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto ids = engine_->tokenizer()->encode(cases[i]["prompt"].get<std::string>());
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    ASSERT_EQ(*ids, ids_of(cases[i]["ids"]));
    const auto id =
        engine_->submit({.prompt_token_ids = *ids, .max_tokens = 64, .ignore_eos = true},
                        [&heard, i](const RequestUpdate& u) { heard[i].hear(u); });
    ASSERT_TRUE(id.ok()) << id.status().message();
  }
  engine_->wait_idle();
  int compared_whole = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<int32_t> tokens = ids_of(cases[i]["tokens"]);
    const auto gaps = cases[i]["gaps"].get<std::vector<double>>();
    // Where two tokens are nearly equal either may come, and the rest follows from that.
    const auto unclear =
        std::find_if(gaps.begin(), gaps.end(), [](double gap) { return gap < 0.05; });
    const auto clear = static_cast<size_t>(unclear - gaps.begin());
    ASSERT_EQ(heard[i].token_ids.size(), 64u);
    for (size_t t = 0; t < clear; ++t) ASSERT_EQ(heard[i].token_ids[t], tokens[t]) << i << " " << t;
    if (unclear != gaps.end()) continue;
    ++compared_whole;
    EXPECT_EQ(heard[i].text, cases[i]["text"].get<std::string>());
    EXPECT_EQ(heard[i].finish, FinishReason::kLength);
  }
  EXPECT_GE(compared_whole, 5);
}

TEST_F(EngineDemoTest, AnswersTheGoldenChats) {
  const auto chat = engine_->chat_template();
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  const Json& cases = golden()["chat"];
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& entry : cases) {
    const auto rendered = (*chat)->render({{"user", entry["user"].get<std::string>()}}, true);
    ASSERT_TRUE(rendered.ok()) << rendered.status().message();
    EXPECT_EQ(*rendered, entry["rendered"].get<std::string>());
    const auto ids = engine_->tokenizer()->encode(*rendered);
    ASSERT_TRUE(ids.ok());
    ASSERT_EQ(*ids, ids_of(entry["ids"]));
    const Heard heard = run_alone(*engine_, {.prompt_token_ids = *ids, .max_tokens = 0});
    EXPECT_EQ(heard.token_ids, ids_of(entry["tokens"]));
    EXPECT_EQ(heard.text, entry["text"].get<std::string>()) << "without <|im_end|>";
    EXPECT_EQ(heard.finish, FinishReason::kStop);
  }
}

TEST_F(EngineDemoTest, AStopIdEndsTheTextBeforeIt) {
  const Json& entry = golden()["greedy"][0];
  const std::vector<int32_t> tokens = ids_of(entry["tokens"]);
  const Heard heard = run_alone(
      *engine_,
      {.prompt_token_ids = ids_of(entry["ids"]), .max_tokens = 64, .stop_token_ids = {tokens[4]}});
  EXPECT_EQ(heard.token_ids, std::vector<int32_t>(tokens.begin(), tokens.begin() + 5));
  EXPECT_EQ(heard.text, engine_->tokenizer()->decode({tokens.begin(), tokens.begin() + 4}, true));
}

TEST_F(EngineDemoTest, ASampledTextDependsOnItsSeedAndChoiceOnly) {
  Request request{.prompt_token_ids = ids_of(golden()["greedy"][0]["ids"]),
                  .sampling = {.temperature = 1.5f, .top_k = 200, .top_p = 0.98f, .seed = 7},
                  .max_tokens = 40,
                  .ignore_eos = true};
  const Heard alone = run_alone(*engine_, request);
  std::vector<Heard> crowd(6);
  for (size_t i = 0; i < crowd.size(); ++i) {
    request.sampling.choice_index = i < 2 ? 0 : static_cast<uint32_t>(i);
    ASSERT_TRUE(
        engine_->submit(request, [&crowd, i](const RequestUpdate& u) { crowd[i].hear(u); }).ok());
  }
  engine_->wait_idle();
  EXPECT_EQ(crowd[0].token_ids, alone.token_ids);
  EXPECT_EQ(crowd[1].token_ids, alone.token_ids);
  EXPECT_NE(crowd[2].token_ids, alone.token_ids);
  EXPECT_NE(crowd[2].token_ids, crowd[3].token_ids);
}

TEST_F(EngineDemoTest, SaysWhatItResolvedAndWhatTheModelIs) {
  EXPECT_EQ(engine_->resolved_options().max_model_len, 1024);
  EXPECT_EQ(engine_->resolved_options().num_pages, 16 * 64);
  EXPECT_GE(engine_->resolved_options().num_threads, 1);
  EXPECT_EQ(engine_->model_info().architecture, "Qwen3_5ForCausalLM");
  EXPECT_EQ(engine_->model_info().num_gdn_layers, 6);
  EXPECT_EQ(engine_->metrics().num_slots, 16);
}

TEST(EngineLoadTest, TheContextIsTheModelsUnlessSaidOtherwise) {
  const auto engine = Engine::load({.model = test::demo_model_dir(), .max_num_seqs = 2});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ((*engine)->resolved_options().max_model_len, 8192);
}

TEST(EngineLoadTest, ErrorsNameWhatIsWrong) {
  const auto error = [](const EngineOptions& options) {
    const auto engine = Engine::load(options);
    return engine.ok() ? "" : engine.status().message();
  };
  const std::string demo = test::demo_model_dir();
  EXPECT_THAT(error({.model = "/no/such/folder"}), HasSubstr("/no/such/folder"));
  EXPECT_THAT(error({.model = demo, .page_size = 5}), HasSubstr("--page-size"));
  EXPECT_THAT(error({.model = demo, .max_model_len = 10000}),
              AllOf(HasSubstr("10000"), HasSubstr("8192")));
  EXPECT_THAT(error({.model = demo, .max_model_len = 4096, .memory_bytes = 4 << 20}),
              AllOf(HasSubstr("--max-model-len"), HasSubstr("--memory-bytes")));
  EXPECT_NE(error({.model = demo, .dtype = DType::kI32}), "");
}

TEST(EngineLoadTest, EveryFloatingDtypeRuns) {
  const Json& entry = golden()["greedy"][0];
  const std::vector<int32_t> tokens = ids_of(entry["tokens"]);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto engine =
        Engine::load({.model = test::demo_model_dir(), .dtype = dtype, .max_model_len = 128});
    ASSERT_TRUE(engine.ok()) << dtype_name(dtype) << engine.status().message();
    const Heard heard =
        run_alone(**engine, {.prompt_token_ids = ids_of(entry["ids"]), .max_tokens = 12});
    EXPECT_EQ(heard.token_ids, std::vector<int32_t>(tokens.begin(), tokens.begin() + 12))
        << dtype_name(dtype) << ": the gaps of this prompt are wide";
  }
}

TEST(EngineLoadTest, DummyWeightsNeedNoTokenizer) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "engine_dummy";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(test::demo_model_dir() + "/config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto engine = Engine::load({.model = folder.string(),
                                    .load_format = LoadFormat::kDummy,
                                    .dummy_seed = 3,
                                    .max_model_len = 64});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ((*engine)->tokenizer(), nullptr);
  EXPECT_EQ((*engine)->chat_template().status().code(), StatusCode::kNotFound);
  const Heard heard =
      run_alone(**engine, {.prompt_token_ids = {5, 6, 7}, .max_tokens = 4, .ignore_eos = true});
  EXPECT_EQ(heard.token_ids.size(), 4u);
  EXPECT_EQ(heard.text, "");
  EXPECT_FALSE(Engine::load({.model = folder.string()}).ok()) << "no weights";
  std::filesystem::remove_all(folder);
}

// ---- Equality to the last bit ----

uint64_t hash_words(const void* data, int64_t size_bytes) {
  const auto* words = static_cast<const uint32_t*>(data);
  uint64_t hash = 1469598103934665603u;
  for (int64_t i = 0; i < size_bytes / 4; ++i) hash = (hash ^ words[i]) * 1099511628211u;
  return hash;
}

// Passes everything on to the demo model and notes, for every row that emits, a hash of its logits
// and of the state it left. The notes of two runs over the same requests are equal as sets if and
// only if every logit and every state is.
class RecordingModel final : public model::Model {
 public:
  struct Note {
    int32_t seq_len = 0;
    uint64_t logits = 0;
    uint64_t state = 0;
    bool operator==(const Note&) const = default;
    bool operator<(const Note& other) const {
      return std::tie(seq_len, logits, state) < std::tie(other.seq_len, other.logits, other.state);
    }
  };

  RecordingModel(const model::Model& model, std::vector<Note>& notes)
      : model_(model), notes_(notes) {}

  const model::ModelConfig& config() const override { return model_.config(); }
  const ops::Backend& backend() const override { return model_.backend(); }
  int64_t page_bytes(const model::CacheSpec& spec) const override {
    return model_.page_bytes(spec);
  }
  int64_t slot_bytes(const model::CacheSpec& spec) const override {
    return model_.slot_bytes(spec);
  }
  int64_t weight_bytes() const override { return model_.weight_bytes(); }
  int64_t workspace_bytes(const metadata::Limits& limits) const override {
    return model_.workspace_bytes(limits);
  }
  void forward(Stream& stream, model::Cache& cache, const model::StepIo& io) const override {
    model_.forward(stream, cache, io);
    static_cast<CpuStream&>(stream).run([this, &cache, io](ThreadPool&) { note(cache, io); });
  }

 private:
  void note(const model::Cache& cache, const model::StepIo& io) const {
    const metadata::StepView& step = io.step;
    const int64_t slot_bytes = model_.slot_bytes(cache.spec);
    const int64_t vocab = config().vocab_size;
    for (int32_t r = 0; r < step.counts->num_rows; ++r) {
      for (int32_t l = step.logit_start[r]; l < step.logit_start[r + 1]; ++l) {
        notes_.push_back(
            {step.seq_len[r], hash_words(io.logits + l * vocab, vocab * 4),
             hash_words(cache.slots.as<char>() + step.final_slot[r] * slot_bytes, slot_bytes)});
      }
    }
  }

  const model::Model& model_;
  std::vector<Note>& notes_;
};

class EngineEqualityTest : public ::testing::Test {
 protected:
  struct Run {
    EngineOptions options = {.num_threads = 1,
                             .max_model_len = 512,
                             .page_size = 16,
                             .num_pages = 256,
                             .max_num_seqs = 8,
                             .max_num_batched_tokens = 512};
    bool one_by_one = false;
    bool reversed = false;

    std::vector<RecordingModel::Note> notes = {};
    std::vector<std::vector<int32_t>> tokens = {};
    MetricsSnapshot metrics = {};
  };

  static void SetUpTestSuite() {
    auto loaded = model::load_model({.folder = test::demo_model_dir()}, ops::cpu_backend());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded).release();
  }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(model_, nullptr); }

  // Prompts from the golden text, of lengths around the edges of chunks and pages.
  static std::vector<Request> requests() {
    const std::vector<int32_t> text = ids_of(golden()["sequence"]);
    std::vector<Request> all;
    int32_t offset = 0;
    for (const int32_t length : {1, 15, 64, 65, 129, 200, 33}) {
      Request request;
      request.prompt_token_ids.assign(text.begin() + offset, text.begin() + offset + length);
      request.max_tokens = 10;
      request.ignore_eos = true;
      all.push_back(request);
      offset += 17;
    }
    return all;
  }

  static void execute(Run& run) {
    engine::EngineParts parts;
    parts.model = std::make_unique<RecordingModel>(*model_, run.notes);
    parts.options = run.options;
    parts.num_slots = run.options.max_num_seqs;
    parts.before_start = [](engine::EngineLoop& loop, engine::Runner& runner) {
      engine::poison_freed(*model_, loop, runner);
    };
    auto started = engine::start_engine(std::move(parts));
    ASSERT_TRUE(started.ok()) << started.status().message();
    std::vector<Request> all = requests();
    std::vector<Heard> heard(all.size());
    std::vector<size_t> order(all.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (run.reversed) std::reverse(order.begin(), order.end());
    // The first update holds the engine thread until every request is queued, so that which ones
    // run together does not hang on how fast this thread submits.
    std::latch all_submitted(1);
    const bool hold = !run.one_by_one;
    for (const size_t i : order) {
      const auto hear = [&heard, &all_submitted, hold, i](const RequestUpdate& update) {
        if (hold) all_submitted.wait();
        heard[i].hear(update);
      };
      ASSERT_TRUE((*started)->submit(all[i], hear).ok());
      if (run.one_by_one) (*started)->wait_idle();
    }
    all_submitted.count_down();
    (*started)->wait_idle();
    run.metrics = (*started)->metrics();
    for (const Heard& one : heard) {
      ASSERT_EQ(one.finish, FinishReason::kLength) << one.status.message();
      run.tokens.push_back(one.token_ids);
    }
    std::sort(run.notes.begin(), run.notes.end());
    EXPECT_EQ(run.metrics.num_pages_used, 0);
  }

  // The run that the others are held against.
  static const Run& base() {
    static const Run* run = [] {
      auto* made = new Run;
      made->one_by_one = true;
      execute(*made);
      return made;
    }();
    return *run;
  }

  static void expect_bit_equal(Run& run, const std::string& what) {
    execute(run);
    EXPECT_EQ(run.notes.size(), 70u) << what;
    EXPECT_TRUE(run.notes == base().notes) << what << ": logits or states differ";
    EXPECT_EQ(run.tokens, base().tokens) << what;
    EXPECT_EQ(run.metrics.preemptions, 0) << what;
  }

  static model::Model* model_;
};
model::Model* EngineEqualityTest::model_ = nullptr;

TEST_F(EngineEqualityTest, BatchCompositionAndArrivalOrder) {
  Run together;
  expect_bit_equal(together, "all at once");
  EXPECT_LT(together.metrics.steps, base().metrics.steps) << "they did not share steps";
  Run reversed;
  reversed.reversed = true;
  expect_bit_equal(reversed, "in reverse");
  Run three_rows;
  three_rows.options.max_num_seqs = 3;
  expect_bit_equal(three_rows, "three at a time");
}

TEST_F(EngineEqualityTest, PageSize) {
  for (const int32_t page_size : {1, 8, 64, 1024}) {
    Run run;
    run.options.page_size = page_size;
    run.options.num_pages = std::max(4096 / page_size, 8);
    expect_bit_equal(run, "page size " + std::to_string(page_size));
  }
}

TEST_F(EngineEqualityTest, Threads) {
  for (const int32_t threads : {2, 3}) {
    Run run;
    run.options.num_threads = threads;
    expect_bit_equal(run, std::to_string(threads) + " threads");
  }
}

TEST_F(EngineEqualityTest, TokenBudget) {
  for (const int32_t budget : {64, 100, 128, 256}) {
    Run run;
    run.options.max_num_batched_tokens = budget;
    expect_bit_equal(run, "budget " + std::to_string(budget));
  }
}

TEST_F(EngineEqualityTest, PreemptionGivesTheSameTokens) {
  Run run;
  // Room for the first five prompts, and for a few of the 50 tokens that follow them.
  run.options.max_model_len = 285;
  run.options.page_size = 1;
  run.options.num_pages = 285;
  execute(run);
  EXPECT_GT(run.metrics.preemptions, 0) << "the pool is not small enough";
  EXPECT_GT(run.metrics.recomputed_tokens, 0);
  EXPECT_EQ(run.tokens, base().tokens);
}

}  // namespace
}  // namespace headrace
