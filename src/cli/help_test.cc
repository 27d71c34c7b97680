// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/paths.h"

namespace headrace::cli {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_tidy(const std::string& help) {
  EXPECT_THAT(help, EndsWith("\n"));
  EXPECT_THAT(help, HasSubstr("Examples:\n"));
  EXPECT_THAT(help, HasSubstr("Exit codes:\n"));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 95u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, OfTheProgramNamesEveryCommand) {
  const std::string help = program_help();
  expect_tidy(help);
  for (const VerbSpec& verb : verbs()) {
    EXPECT_THAT(help, HasSubstr("\n  " + std::string(verb.name) + " "));
    EXPECT_THAT(help, HasSubstr(std::string(verb.summary)));
  }
}

TEST(Help, OfACommandShowsEveryOptionWithDefaultAndVariable) {
  for (const VerbSpec& verb : verbs()) {
    const std::string help = verb_help(verb);
    expect_tidy(help);
    EXPECT_THAT(help, StartsWith("Usage: headrace " + std::string(verb.name)));
    for (const OptionSpec& spec : verb.options) {
      EXPECT_THAT(help, HasSubstr("\n  " + std::string(spec.name)));
      EXPECT_THAT(help, HasSubstr(environment_name(spec.name) + "]\n"));
      if (!spec.fallback.empty()) {
        EXPECT_THAT(help, HasSubstr("[default " + std::string(spec.fallback) + "; " +
                                    environment_name(spec.name) + "]"));
      }
    }
  }
}

// docs/cli.md has a row for each option: name, value, variable, and the built-in value if any.
TEST(Help, TheDocumentHasARowForEveryOption) {
  std::ifstream file(test::source_dir() + "/docs/cli.md");
  std::map<std::string, std::string> sections;  // by heading
  std::string heading;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    sections[heading] += line + "\n";
  }
  for (const VerbSpec& verb : verbs()) {
    const std::string& section = sections[std::string(verb.name)];
    for (const OptionSpec& spec : verb.options) {
      if (verb.options.size() == 1) {  // a sentence does
        EXPECT_THAT(section, HasSubstr("`" + std::string(spec.name) + "`"));
        continue;
      }
      std::string row = "\n| `" + std::string(spec.name);
      if (!spec.is_switch()) row += " " + std::string(spec.value);
      row += "` | `" + environment_name(spec.name) + "` | ";
      EXPECT_THAT(section, HasSubstr(row)) << verb.name;
      if (spec.fallback.empty()) continue;
      const std::string fallback(spec.fallback);
      EXPECT_THAT(section,
                  AnyOf(HasSubstr(row + fallback + " |"), HasSubstr(row + "`" + fallback + "` |")));
    }
  }
}

TEST(Help, GroupsStandTogether) {
  for (const VerbSpec& verb : verbs()) {
    const std::string help = verb_help(verb);
    for (const OptionSpec& spec : verb.options) {
      const std::string heading = "\n" + std::string(spec.group) + ":\n";
      const size_t first = help.find(heading);
      ASSERT_NE(first, std::string::npos);
      EXPECT_EQ(help.find(heading, first + 1), std::string::npos) << heading;
    }
  }
}

}  // namespace
}  // namespace headrace::cli
