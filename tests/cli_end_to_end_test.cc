// SPDX-License-Identifier: Apache-2.0
// The program as a whole, apart from `generate`: help, version, licences, usage errors, tokenize,
// doctor, and what all commands do with their standard streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "headrace/version.h"
#include "tests/cli_process.h"

namespace headrace::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A usage error: code 2, nothing on standard output, the message on standard error.
void expect_usage_error(const std::vector<std::string>& args, const std::string& message) {
  const ProcessResult result = run_headrace(args);
  EXPECT_EQ(result.code, 2) << message;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("headrace: error: " + message));
  EXPECT_THAT(result.err, HasSubstr("--help lists what there is"));
}

TEST(Cli, VersionAndLicences) {
  EXPECT_EQ(run_headrace({"--version"}).out, std::string("headrace ") + version() + "\n");
  const ProcessResult licences = run_headrace({"--licenses"});
  EXPECT_EQ(licences.code, 0);
  EXPECT_EQ(licences.out, file_text(source_dir() + "/THIRD_PARTY_NOTICES"));
  for (const char* name : {"fmt", "nlohmann", "simdjson", "PCRE2", "utf8proc", "GoogleTest",
                           "King James Bible", "public domain"}) {
    EXPECT_THAT(licences.out, HasSubstr(name));
  }
}

TEST(Cli, HelpGoesToStandardOutput) {
  for (const auto& args : {std::vector<std::string>{"--help"},
                           {"-h"},
                           {"generate", "--help"},
                           {"generate", "--model", "nowhere", "-h"},
                           {"tokenize", "--help"},
                           {"doctor", "--help"}}) {
    const ProcessResult result = run_headrace(args);
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, StartsWith("Usage: headrace"));
    EXPECT_THAT(result.out, HasSubstr("\n  130  "));
    EXPECT_THAT(result.err, IsEmpty());
  }
}

TEST(Cli, UsageErrorsSuggestWhatWasMeant) {
  expect_usage_error({}, "no command given");
  expect_usage_error({"genrate"}, "unknown command genrate; did you mean generate?");
  expect_usage_error({"--verison"}, "unknown option --verison; did you mean --version?");
  expect_usage_error({"--model", "m", "generate"}, "--model comes after the command");
  expect_usage_error({"generate", "--promt", "x"},
                     "unknown option --promt; did you mean --prompt?");
  expect_usage_error({"generate", "--model", "m", "--max-tokens", "many"},
                     "--max-tokens: 'many' is not a whole number");
  expect_usage_error({"generate", "--prompt", "x"}, "no model");
  expect_usage_error({"tokenize", "--model", "m", "a", "b"}, "unexpected argument 'b'");
  expect_usage_error({"doctor", "--jsn"}, "unknown option --jsn; did you mean --json?");
}

TEST(Cli, AFullDeviceIsAnError) {
  for (const auto& args : {std::vector<std::string>{"--help"}, {"doctor"}, {"--licenses"}}) {
    ProcessSetup setup;
    setup.args = args;
    setup.stdout_kind = StreamKind::kFile;
    setup.stdout_path = "/dev/full";
    const ProcessResult result = run_headrace(setup);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("standard output"));
    EXPECT_THAT(result.err, HasSubstr("/dev/full"));
  }
}

TEST(Cli, AClosedOutputIsAnError) {
  ProcessSetup setup;
  setup.args = {"--help"};
  setup.stdout_kind = StreamKind::kClosed;
  const ProcessResult result = run_headrace(setup);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard output: it is closed"));
}

TEST(Cli, AReaderThatHasGoneIsNone) {
  for (const auto& args : {std::vector<std::string>{"--help"},
                           {"doctor"},
                           {"tokenize", "--model", demo_model_dir(), "In the beginning"}}) {
    ProcessSetup setup;
    setup.args = args;
    setup.stdout_kind = StreamKind::kReaderGone;
    const ProcessResult result = run_headrace(setup);
    EXPECT_EQ(result.code, 141);
    EXPECT_FALSE(result.signalled);
    EXPECT_THAT(result.err, IsEmpty());
  }
}

TEST(Cli, ColoursErrorsOnATerminalOnly) {
  ProcessSetup setup;
  setup.args = {"genrate"};
  setup.stderr_kind = StreamKind::kTerminal;
  EXPECT_THAT(run_headrace(setup).err, HasSubstr("\033[1;31merror:"));
  setup.environment = {{"NO_COLOR", "1"}};
  EXPECT_THAT(run_headrace(setup).err, Not(HasSubstr("\033")));
  setup.environment = {{"TERM", "dumb"}};
  EXPECT_THAT(run_headrace(setup).err, Not(HasSubstr("\033")));
  EXPECT_THAT(run_headrace({"genrate"}).err, Not(HasSubstr("\033")));
}

TEST(CliTokenize, ThereAndBackAgain) {
  const std::string model = demo_model_dir();
  const std::string text = "Ge 1\nIn the beginning \u6bd5 na\u00efve\n";
  const ProcessResult ids = run_headrace({"tokenize", "--model", model, text});
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_THAT(ids.out, StartsWith("3098 223 19 201 3456 261"));
  EXPECT_THAT(ids.err, IsEmpty());

  EXPECT_EQ(run_headrace({"tokenize", "--model", model, "--ids", ids.out}).out, text);
  EXPECT_EQ(run_headrace({"tokenize", "--model", model, "--ids", "-"}, ids.out).out, text);
  EXPECT_EQ(run_headrace({"tokenize", "--model", model, "--prompt-file", "-"}, text).out, ids.out);
  EXPECT_EQ(run_headrace({"tokenize", "--model", model}, text).out, ids.out);
  EXPECT_EQ(run_headrace({"tokenize", "--model", model + "/tokenizer.json", text}).out, ids.out);
}

TEST(CliTokenize, SpecialTokens) {
  const std::string model = demo_model_dir();
  const auto json = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"tokenize", "--model", model, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const ProcessResult result = run_headrace(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto parsed = json({"a<|im_end|>"});
  EXPECT_EQ(parsed["text"], "a<|im_end|>");
  ASSERT_EQ(parsed["token_ids"].size(), 2u);
  EXPECT_EQ(parsed["tokens"][0]["text"], "a");
  EXPECT_EQ(parsed["tokens"][0]["special"], false);
  EXPECT_EQ(parsed["tokens"][1]["text"], "<|im_end|>");
  EXPECT_EQ(parsed["tokens"][1]["special"], true);
  EXPECT_EQ(parsed["tokens"][1]["id"], parsed["token_ids"][1]);

  EXPECT_GT(json({"a<|im_end|>", "--no-parse-special-tokens"})["token_ids"].size(), 2u);

  const std::string ids = parsed["token_ids"].dump();
  EXPECT_EQ(json({"--ids", ids})["text"], "a<|im_end|>");
  EXPECT_EQ(json({"--ids", ids, "--skip-special-tokens"})["text"], "a");
}

TEST(CliTokenize, ErrorsHaveTheirCodes) {
  const std::string model = demo_model_dir();
  const auto expect = [](const std::vector<std::string>& args, int code, const char* message) {
    const ProcessResult result = run_headrace(args);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  expect({"tokenize", "--model", model, "--ids", "4096"}, 2, "4096 is not in the vocabulary");
  expect({"tokenize", "--model", model, "--ids", "1 two"}, 2, "'two'");
  expect({"tokenize", "--model", model, "\xFF"}, 2, "UTF-8");
  expect({"tokenize", "--model", "/no/such/model", "x"}, 3, "/no/such/model");
  expect({"tokenize", "--model", model, "--prompt-file", "/no/such/file"}, 3, "/no/such/file");
  expect({"tokenize", "--model", model, "--prompt-file", "/"}, 3, "Is a directory");
}

TEST(CliTokenize, DoesNotWaitForATerminal) {
  ProcessSetup setup;
  setup.args = {"tokenize", "--model", demo_model_dir()};
  setup.stdin_kind = StreamKind::kTerminal;
  const ProcessResult result = run_headrace(setup);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("terminal"));
}

TEST(CliDoctor, ReportsForPeopleAndPrograms) {
  const ProcessResult text = run_headrace({"doctor"});
  EXPECT_EQ(text.code, 0) << text.out;
  for (const char* word : {"CPU", "kernels", "memory", "GPU", "driver", "ready to generate"}) {
    EXPECT_THAT(text.out, HasSubstr(word));
  }
  const ProcessResult result = run_headrace({"doctor", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["version"], version());
  EXPECT_GE(json["cpu"]["num_logical_cores"].get<int>(), 1);
  EXPECT_GT(json["cpu"]["memory_total_bytes"].get<int64_t>(), 0);
  EXPECT_GE(json["cpu"]["memory_total_bytes"], json["cpu"]["memory_available_bytes"]);
  EXPECT_TRUE(json["cpu"]["isa"].is_array());
  EXPECT_TRUE(json["gpus"].is_array());
  EXPECT_TRUE(json["advice"].is_array());
  EXPECT_TRUE(json["driver_found"].is_boolean());
  EXPECT_TRUE(json["built_with_cuda"].is_boolean());
  EXPECT_TRUE(json["failures"].empty());

  ProcessSetup setup;
  setup.args = {"doctor"};
  setup.environment = {{"HEADRACE_CPU_ISA", "scalar"}, {"HEADRACE_JSON", "true"}};
  EXPECT_EQ(nlohmann::json::parse(run_headrace(setup).out)["cpu"]["isa_in_use"], "scalar");
}

}  // namespace
}  // namespace headrace::test
