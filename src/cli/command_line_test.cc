// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

using ::testing::HasSubstr;

const char* no_environment(const char*) { return nullptr; }

const VerbSpec& generate_spec() { return *find_verb("generate"); }

CommandLine parse(const std::vector<std::string>& args, const char* verb = "generate") {
  auto line = parse_command_line(*find_verb(verb), args, no_environment);
  EXPECT_TRUE(line.ok()) << line.status().message();
  return line.ok() ? *line : CommandLine{};
}

std::string error(const std::vector<std::string>& args, const char* verb = "generate") {
  const auto line = parse_command_line(*find_verb(verb), args, no_environment);
  EXPECT_FALSE(line.ok());
  return line.status().message();
}

std::string text_of(const CommandLine& line, std::string_view option) {
  const OptionValue* value = line.find(option);
  return value == nullptr ? "(none)" : value->text;
}

TEST(CommandLine, TakesBothSpellings) {
  const CommandLine line = parse({"--model", "demo", "--max-tokens=7", "--json"});
  EXPECT_EQ(text_of(line, "--model"), "demo");
  EXPECT_EQ(text_of(line, "--max-tokens"), "7");
  EXPECT_EQ(text_of(line, "--json"), "true");
  EXPECT_EQ(text_of(line, "--seed"), "(none)");
  EXPECT_EQ(line.find("--max-tokens")->origin, "--max-tokens");
}

// Prompts are free text: nothing in them may be taken for syntax.
TEST(CommandLine, GivesValuesOutAsTheyWereTyped) {
  for (const char* text : {"[a,b]", "\"q\"", " x ", "a\\nb", "-1", "-h", "--", "--- rule", "++", "",
                           "a=b", "{}", "%s", "$HOME", "\n"}) {
    EXPECT_EQ(text_of(parse({"--prompt", text}), "--prompt"), text);
    EXPECT_EQ(text_of(parse({std::string("--prompt=") + text}), "--prompt"), text);
  }
  EXPECT_EQ(text_of(parse({"--prompt=--json"}), "--prompt"), "--json");
  // An empty value does not swallow what follows.
  const CommandLine line = parse({"--prompt=", "--model", "demo"});
  EXPECT_EQ(text_of(line, "--prompt"), "");
  EXPECT_EQ(text_of(line, "--model"), "demo");
}

TEST(CommandLine, LastOneCounts) {
  EXPECT_EQ(text_of(parse({"--seed", "1", "--seed", "2"}), "--seed"), "2");
  EXPECT_EQ(text_of(parse({"--json", "--json=false"}), "--json"), "false");
}

TEST(CommandLine, SuggestsTheNearestOption) {
  EXPECT_EQ(error({"--promt", "x"}), "unknown option --promt; did you mean --prompt?");
  EXPECT_EQ(error({"--promt=x"}), "unknown option --promt; did you mean --prompt?");
  EXPECT_EQ(error({"--hepl"}), "unknown option --hepl; did you mean --help?");
  EXPECT_EQ(error({"--quantise"}), "unknown option --quantise");
  EXPECT_EQ(error({"-m", "x"}), "unknown option -m");
}

TEST(CommandLine, NamesAMissingValue) {
  EXPECT_EQ(error({"--model"}), "--model needs a value: --model FOLDER");
  EXPECT_THAT(error({"--prompt", "--json"}), HasSubstr("--prompt=--json"));
}

TEST(CommandLine, KnowsWhoTakesPositionals) {
  EXPECT_THAT(error({"In the beginning"}), HasSubstr("--prompt"));
  EXPECT_THAT(error({"x"}, "doctor"), HasSubstr("unexpected argument 'x'"));
  EXPECT_EQ(parse({"generate"}, "tokenize").positionals, std::vector<std::string>{"generate"});
  EXPECT_EQ(parse({"--", "--json"}, "tokenize").positionals, std::vector<std::string>{"--json"});
  EXPECT_EQ(parse({"-"}, "tokenize").positionals, std::vector<std::string>{"-"});
  EXPECT_EQ(parse({""}, "tokenize").positionals, std::vector<std::string>{""});
  EXPECT_THAT(error({"In", "the"}, "tokenize"), HasSubstr("quotes"));
}

TEST(CommandLine, HelpWinsOverWhatFollows) {
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"-h", "--nonsense"}).help);
  EXPECT_TRUE(parse({"--model", "x", "--help"}).help);
  EXPECT_FALSE(parse({"--prompt", "--help"}).help);
}

TEST(CommandLine, EnvironmentStandsInAndFlagsWin) {
  const std::map<std::string, std::string> variables = {
      {"HEADRACE_MODEL", "from-env"}, {"HEADRACE_MAX_TOKENS", "5"}, {"HEADRACE_SEED", ""}};
  const auto environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto line = parse_command_line(generate_spec(), {"--model", "from-flag"}, environment);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(text_of(*line, "--model"), "from-flag");
  EXPECT_FALSE(line->find("--model")->from_environment);
  EXPECT_EQ(text_of(*line, "--max-tokens"), "5");
  EXPECT_EQ(line->find("--max-tokens")->origin, "HEADRACE_MAX_TOKENS");
  EXPECT_TRUE(line->find("--max-tokens")->from_environment);
  EXPECT_EQ(line->find("--seed"), nullptr) << "an empty variable is as good as none";
}

TEST(CommandLine, EveryOptionHasAVariable) {
  EXPECT_EQ(environment_name("--max-model-len"), "HEADRACE_MAX_MODEL_LEN");
  for (const VerbSpec& verb : verbs()) {
    for (const OptionSpec& spec : verb.options) {
      const std::string wanted = environment_name(spec.name);
      const auto line = parse_command_line(verb, {}, [&](const char* name) -> const char* {
        return wanted == name ? "value" : nullptr;
      });
      ASSERT_TRUE(line.ok());
      EXPECT_EQ(text_of(*line, spec.name), "value") << wanted;
    }
  }
}

}  // namespace
}  // namespace headrace::cli
