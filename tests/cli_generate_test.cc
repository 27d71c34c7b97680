// SPDX-License-Identifier: Apache-2.0
// `headrace generate` on models/demo: what goes where, how it ends, and how each mistake is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli_process.h"

namespace headrace::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kPrompt = "Ge 1\nIn the beginning";
constexpr const char* kGenesis = " God created the heaven and the earth. And the earth was without";
constexpr const char* kStatistics =
    "[0-9]+ prompt tokens, [0-9]+ generated tokens \\([a-z]+\\), first token after [0-9.]+ m?s, "
    "[0-9.]+ tokens/s\n";

std::vector<std::string> generate_args(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"generate", "--model", demo_model_dir()};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

ProcessResult generate(const std::vector<std::string>& more, const std::string& input = {}) {
  return run_headrace(generate_args(more), input);
}

nlohmann::json generate_json(std::vector<std::string> more) {
  more.push_back("--json");
  const ProcessResult result = generate(more);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << "one object, one line";
  return nlohmann::json::parse(result.out);
}

nlohmann::json golden() {
  std::ifstream file(golden_dir() + "/demo/golden.json");
  return nlohmann::json::parse(file);
}

TEST(CliGenerate, TextOnStandardOutputStatisticsOnStandardError) {
  const ProcessResult result = generate({"--prompt", kPrompt});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith(kGenesis));
  EXPECT_THAT(result.out, EndsWith("\n"));
  EXPECT_THAT(result.err, MatchesRegex(kStatistics));
  EXPECT_THAT(result.err, HasSubstr("7 prompt tokens, 128 generated tokens (length)"));
}

TEST(CliGenerate, JsonIsOneObject) {
  const auto json = generate_json({"--prompt", kPrompt, "--max-tokens", "20", "--seed", "5"});
  const auto expected = golden()["greedy"][0];
  EXPECT_EQ(json["model"], demo_model_dir());
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["prompt_token_ids"], expected["ids"]);
  EXPECT_THAT(json["text"].get<std::string>(), StartsWith(kGenesis));
  EXPECT_EQ(json["finish_reason"], "length");
  const auto ids = json["token_ids"].get<std::vector<int>>();
  const auto golden_ids = expected["tokens"].get<std::vector<int>>();
  ASSERT_EQ(ids.size(), 20u);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), golden_ids.begin()));
  const auto& timings = json["timings"];
  EXPECT_GT(timings["load_s"].get<double>(), 0);
  EXPECT_GE(timings["queued_s"].get<double>(), 0);
  EXPECT_GT(timings["first_token_s"].get<double>(), 0);
  EXPECT_GT(timings["total_s"].get<double>(), timings["first_token_s"].get<double>());
  EXPECT_GT(timings["tokens_per_s"].get<double>(), 0);

  // The same text as without --json, but for the line break at its end.
  const ProcessResult text = generate({"--prompt", kPrompt, "--max-tokens", "20"});
  EXPECT_EQ(text.out, json["text"].get<std::string>() + "\n");
}

TEST(CliGenerate, EveryWayToGiveThePrompt) {
  const std::string expected = generate({"--prompt", kPrompt, "--max-tokens", "8"}).out;
  EXPECT_THAT(expected, StartsWith(" God created"));
  EXPECT_EQ(generate({"--prompt-file", "-", "--max-tokens", "8"}, kPrompt).out, expected);
  EXPECT_EQ(generate({"--max-tokens", "8"}, kPrompt).out, expected);
  const std::string path = ::testing::TempDir() + "/cli_prompt_" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << kPrompt;
  EXPECT_EQ(generate({"--prompt-file", path, "--max-tokens", "8"}).out, expected);
  std::filesystem::remove(path);
}

TEST(CliGenerate, ChatAnswersAndStops) {
  const auto chats = golden()["chat"];
  ASSERT_FALSE(chats.empty());
  for (const auto& chat : chats) {
    const auto json = generate_json({"--chat", chat["user"].get<std::string>()});
    EXPECT_EQ(json["prompt_token_ids"], chat["ids"]);
    EXPECT_EQ(json["finish_reason"], "stop");
  }
  const ProcessResult answer = generate({"--chat", "Ge 1:1"});
  EXPECT_EQ(answer.out, "In the beginning God created the heaven and the earth.\n");
  EXPECT_THAT(answer.err, HasSubstr("(stop)"));
  // The system message stands in front.
  const auto plain = generate_json({"--chat", "Ge 1:1", "--max-tokens", "1"});
  const auto with_system =
      generate_json({"--chat", "Ge 1:1", "--system", "Be brief", "--max-tokens", "1"});
  EXPECT_GT(with_system["prompt_token_ids"].size(), plain["prompt_token_ids"].size());
}

TEST(CliGenerate, IgnoreEosGoesOn) {
  const auto stopped = generate_json({"--chat", "Ge 1:1", "--max-tokens", "40"});
  const auto going_on = generate_json({"--chat", "Ge 1:1", "--max-tokens", "40", "--ignore-eos"});
  EXPECT_LT(stopped["token_ids"].size(), 40u);
  EXPECT_EQ(going_on["token_ids"].size(), 40u);
  EXPECT_EQ(going_on["finish_reason"], "length");
}

TEST(CliGenerate, SeedsDecideTheDraw) {
  const auto draw = [](const std::string& seed) {
    return generate({"--prompt", "And", "--temperature", "1.2", "--top-k", "200", "--top-p", "0.95",
                     "--max-tokens", "24", "--seed", seed})
        .out;
  };
  EXPECT_EQ(draw("7"), draw("7"));
  EXPECT_NE(draw("7"), draw("8"));
}

TEST(CliGenerate, EngineOptionsDoNotChangeGreedyText) {
  const std::string expected = generate({"--prompt", kPrompt, "--max-tokens", "24"}).out;
  for (const auto& more : {std::vector<std::string>{"--threads", "1"},
                           {"--page-size", "64"},
                           {"--page-size", "1"},
                           {"--max-model-len", "40"},
                           {"--load-format", "safetensors"}}) {
    std::vector<std::string> args = {"--prompt", kPrompt, "--max-tokens", "24"};
    args.insert(args.end(), more.begin(), more.end());
    const ProcessResult result = generate(args);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out, expected) << more[0];
  }
}

TEST(CliGenerate, MaxTokensZeroFillsTheContext) {
  const auto json = generate_json(
      {"--prompt", kPrompt, "--max-tokens", "0", "--max-model-len", "50", "--ignore-eos"});
  EXPECT_EQ(json["prompt_token_ids"].size() + json["token_ids"].size(), 50u);
  EXPECT_EQ(json["finish_reason"], "length");
}

TEST(CliGenerate, DummyWeights) {
  const auto json = generate_json(
      {"--load-format", "dummy", "--prompt", kPrompt, "--max-tokens", "3", "--ignore-eos"});
  EXPECT_EQ(json["token_ids"].size(), 3u);
}

TEST(CliGenerate, EnvironmentStandsIn) {
  ProcessSetup setup;
  setup.args = {"generate"};
  setup.environment = {{"HEADRACE_MODEL", demo_model_dir()},
                       {"HEADRACE_PROMPT", kPrompt},
                       {"HEADRACE_MAX_TOKENS", "4"},
                       {"HEADRACE_JSON", "1"}};
  EXPECT_EQ(nlohmann::json::parse(run_headrace(setup).out)["token_ids"].size(), 4u);
  setup.args = {"generate", "--max-tokens", "2"};
  EXPECT_EQ(nlohmann::json::parse(run_headrace(setup).out)["token_ids"].size(), 2u);
  setup.args = {"generate", "--json=false"};
  EXPECT_THAT(run_headrace(setup).out, StartsWith(" God"));
  setup.environment["HEADRACE_TOP_P"] = "2";
  const ProcessResult wrong = run_headrace(setup);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("HEADRACE_TOP_P: 2 is out of range"));
}

// Runs whether or not the locale is installed: without it this says little, with it all.
TEST(CliGenerate, NumbersDoNotDependOnTheLocale) {
  for (const char* locale : {"C", "de_DE.UTF-8"}) {
    ProcessSetup setup;
    setup.args = generate_args(
        {"--prompt", kPrompt, "--temperature", "0.5", "--top-p", "0.5", "--max-tokens", "4"});
    setup.environment = {{"LC_ALL", locale}, {"LANG", locale}};
    const ProcessResult result = run_headrace(setup);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, MatchesRegex(kStatistics));
    setup.args = generate_args({"--prompt", kPrompt, "--temperature", "0,5"});
    EXPECT_EQ(run_headrace(setup).code, 2);
  }
}

class CliGenerateSignal : public ::testing::TestWithParam<int> {};

TEST_P(CliGenerateSignal, EndsCleanlyWithStatistics) {
  ProcessSetup setup;
  setup.args = generate_args({"--prompt", kPrompt, "--max-tokens", "0", "--ignore-eos"});
  Process process(setup);
  // Text comes while the request runs, not at its end.
  process.read_stdout(20);
  EXPECT_TRUE(process.running());
  process.send(GetParam());
  const ProcessResult result = process.finish();
  EXPECT_FALSE(result.signalled);
  EXPECT_EQ(result.code, 128 + GetParam());
  EXPECT_THAT(result.out, StartsWith(" God created the heaven"));
  EXPECT_THAT(result.out, EndsWith("\n"));
  EXPECT_THAT(result.err, MatchesRegex(kStatistics));
  EXPECT_THAT(result.err, HasSubstr("(cancelled)"));
}

INSTANTIATE_TEST_SUITE_P(Signals, CliGenerateSignal, ::testing::Values(SIGINT, SIGTERM));

TEST(CliGenerate, AnInterruptedJsonIsStillAnObject) {
  ProcessSetup setup;
  setup.args = generate_args({"--prompt", kPrompt, "--max-tokens", "0", "--ignore-eos", "--json"});
  setup.environment = {{"HEADRACE_LOG_LEVEL", "info"}};
  Process process(setup);
  process.wait_for_stderr("max_model_len");  // the last thing that loading says
  usleep(300'000);
  process.send(SIGINT);
  const ProcessResult result = process.finish();
  EXPECT_EQ(result.code, 130);
  ASSERT_FALSE(result.out.empty());
  EXPECT_EQ(nlohmann::json::parse(result.out)["finish_reason"], "cancelled");
}

TEST(CliGenerate, AClosedPipeEndsQuietly) {
  ProcessSetup setup;
  setup.args = generate_args({"--prompt", kPrompt, "--max-tokens", "0", "--ignore-eos"});
  Process process(setup);
  process.read_stdout(10);
  process.close_stdout();
  const ProcessResult result = process.finish();
  EXPECT_FALSE(result.signalled);
  EXPECT_EQ(result.code, 141);
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(CliGenerate, AFullDeviceIsAnError) {
  for (bool json : {false, true}) {
    ProcessSetup setup;
    setup.args = generate_args({"--prompt", kPrompt, "--max-tokens", "4"});
    if (json) setup.args.push_back("--json");
    setup.stdout_kind = StreamKind::kFile;
    setup.stdout_path = "/dev/full";
    const ProcessResult result = run_headrace(setup);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output: No space left on device"));
    EXPECT_THAT(result.err, HasSubstr("/dev/full"));
  }
}

TEST(CliGenerate, ProgressAndColourOnATerminalOnly) {
  ProcessSetup setup;
  setup.args = generate_args({"--prompt", kPrompt, "--max-tokens", "2"});
  setup.stderr_kind = StreamKind::kTerminal;
  const ProcessResult dressed = run_headrace(setup);
  EXPECT_THAT(dressed.err, StartsWith("loading " + demo_model_dir() + " ...\r\033[K"));
  EXPECT_THAT(dressed.out, Not(HasSubstr("\033")));
  setup.environment = {{"NO_COLOR", "1"}};
  const ProcessResult plain = run_headrace(setup);
  EXPECT_THAT(plain.err, Not(HasSubstr("\033")));
  EXPECT_THAT(plain.err, Not(HasSubstr("loading")));
  EXPECT_THAT(plain.err, StartsWith("7 prompt tokens"));
}

TEST(CliGenerate, WithoutAPromptOnATerminal) {
  ProcessSetup setup;
  setup.args = generate_args({});
  setup.stdin_kind = StreamKind::kTerminal;
  const ProcessResult result = run_headrace(setup);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no prompt given"));
}

void expect_error(const ProcessResult& result, int code, const std::string& message) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, StartsWith("headrace: error: "));
  EXPECT_THAT(result.err, HasSubstr(message));
}

TEST(CliGenerate, MistakesAndTheirCodes) {
  expect_error(generate({"--prompt", ""}), 2, "the prompt is empty");
  expect_error(generate({}), 2, "the prompt is empty");  // standard input has ended
  expect_error(generate({"--prompt", "a\xFF"}), 2, "UTF-8");
  expect_error(generate({"--prompt", "a", "--chat", "b"}), 2, "exclude each other");
  expect_error(generate({"--prompt-file", "/no/such/file"}), 3, "/no/such/file");
  expect_error(generate({"--prompt", "a", "--page-size", "7"}), 2, "--page-size");
  expect_error(generate({"--prompt", kPrompt, "--max-model-len", "4"}), 2, "--max-model-len");
  expect_error(generate({"--prompt", "a", "--memory-bytes", "1000000"}), 1, "--memory-bytes");
  expect_error(generate({"--prompt", "a", "--max-model-len", "4096", "--num-pages", "8"}), 2,
               "use at least --num-pages 256");
  expect_error(run_headrace({"generate", "--model", "/no/such/model", "--prompt", "a"}), 3,
               "/no/such/model");
  expect_error(run_headrace({"generate", "--model", "/no/such/model", "--prompt", "a", "--json"}),
               3, "/no/such/model");
}

// A copy of models/demo in which one file says something else.
class CliGenerateBrokenModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/cli_model_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(demo_model_dir(), folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void overwrite(const std::string& file, const std::string& content) {
    std::ofstream(folder_ + "/" + file, std::ios::binary | std::ios::trunc) << content;
  }
  ProcessResult run(const std::vector<std::string>& more = {"--prompt", "a"}) {
    std::vector<std::string> args = {"generate", "--model", folder_, "--max-tokens", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return run_headrace(args);
  }

  std::string folder_;
};

TEST_F(CliGenerateBrokenModel, TheCopyItselfWorks) { EXPECT_EQ(run().code, 0); }

TEST_F(CliGenerateBrokenModel, UnknownArchitecture) {
  std::ifstream file(demo_model_dir() + "/config.json");
  auto config = nlohmann::json::parse(file);
  config["architectures"] = {"ElizaForCausalLM"};
  overwrite("config.json", config.dump());
  const ProcessResult result = run();
  expect_error(result, 3, "ElizaForCausalLM");
  EXPECT_THAT(result.err, HasSubstr("Qwen3_5ForCausalLM"));
  EXPECT_THAT(result.err, HasSubstr("LlamaForCausalLM"));
}

TEST_F(CliGenerateBrokenModel, BrokenFiles) {
  overwrite("tokenizer.json", "{");
  expect_error(run(), 3, "tokenizer.json");
  std::filesystem::remove(folder_ + "/tokenizer.json");
  expect_error(run(), 3, "tokenizer.json");
  SetUp();
  overwrite("model.safetensors", "short");
  expect_error(run(), 3, "model.safetensors");
  SetUp();
  overwrite("config.json", "not json");
  expect_error(run(), 3, "config.json");
}

TEST_F(CliGenerateBrokenModel, ChatWithoutATemplate) {
  std::filesystem::remove(folder_ + "/chat_template.jinja");
  overwrite("tokenizer_config.json", "{}");
  EXPECT_EQ(run().code, 0);
  expect_error(run({"--chat", "hello"}), 3, "chat");
}

}  // namespace
}  // namespace headrace::test
