// SPDX-License-Identifier: Apache-2.0
// Runs the commands that docs/cli.md shows and compares what they print with what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace headrace::test {
namespace {

using ::testing::HasSubstr;

struct Example {
  std::string command;
  std::string output;
};

// What follows "$ " in a code block is a command, the lines up to the next one are its output.
std::vector<Example> examples() {
  std::ifstream file(source_dir() + "/docs/cli.md");
  std::vector<Example> found;
  bool in_code = false, in_example = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      in_code = !in_code;
      in_example = false;
    } else if (in_code && line.starts_with("$ ")) {
      found.push_back({line.substr(2), ""});
      in_example = true;
    } else if (in_example) {
      found.back().output += line + "\n";
    }
  }
  return found;
}

// Both standard streams, in the order in which they were written.
std::string output_of(const std::string& command) {
  const std::string script = "cd '" + source_dir() + "' && PATH='" + binary_dir() +
                             "':$PATH && unset $(compgen -v HEADRACE_); { " + command + "; } 2>&1";
  // bash, because examples use $'\n'; the script goes through a variable to need no quoting.
  setenv("CLI_DOCS_SCRIPT", script.c_str(), 1);
  FILE* pipe = popen("bash -c 'eval \"$CLI_DOCS_SCRIPT\"' </dev/null", "r");
  std::string output;
  for (int c; (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
  return output;
}

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9.]+ (m?s|tokens/s)\\b"), "# $1");
}

nlohmann::json without_times(nlohmann::json json) {
  if (json.contains("timings")) {
    for (auto& [name, seconds] : json["timings"].items()) seconds = 0;
  }
  return json;
}

TEST(CliDocs, ExamplesPrintWhatTheySay) {
  const std::vector<Example> all = examples();
  ASSERT_GE(all.size(), 8u);
  for (const auto& [command, output] : all) {
    SCOPED_TRACE(command);
    const std::string actual = output_of(command);
    if (command == "headrace doctor") {  // differs from machine to machine but for its shape
      EXPECT_THAT(actual, HasSubstr(output.substr(0, output.find('\n') + 1)));
      EXPECT_THAT(actual, HasSubstr("ready to generate\n"));
    } else if (output.starts_with("{")) {
      EXPECT_EQ(without_times(nlohmann::json::parse(actual)),
                without_times(nlohmann::json::parse(output)));
    } else {
      EXPECT_EQ(without_times(actual), without_times(output));
    }
  }
}

}  // namespace
}  // namespace headrace::test
