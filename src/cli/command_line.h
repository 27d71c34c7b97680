// SPDX-License-Identifier: Apache-2.0
// Splits a command line into options and positional arguments after a VerbSpec, and fills in the
// environment. Knows no option by name and gives values out as text, exactly as they were typed:
// prompts are free text, so nothing is trimmed, unquoted, expanded or split.
//
// Why not a library for this: CLI11 2.1 turns `--prompt '[a,b]'` into "a" and lets `--prompt= x`
// swallow "x", and costs every build 9 to 14 s.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.h"
#include "headrace/status.h"

namespace headrace::cli {

// Null if the variable is not set, as std::getenv.
using Environment = std::function<const char*(const char*)>;

struct OptionValue {
  std::string text;    // "true" for a switch without a value
  std::string origin;  // "--max-tokens" or "HEADRACE_MAX_TOKENS", for messages
  bool from_environment = false;
};

struct CommandLine {
  std::map<std::string, OptionValue, std::less<>> options;  // by "--name"
  std::vector<std::string> positionals;
  bool help = false;  // --help or -h: nothing after it was looked at

  const OptionValue* find(std::string_view option) const;
};

// `args` is what follows the command. `--name value`, `--name=value`, switches as `--name` or
// `--name=false`, `--` ends the options; the last of several equal options counts. A variable that
// is set and not empty stands in for a missing option.
Result<CommandLine> parse_command_line(const VerbSpec& verb, const std::vector<std::string>& args,
                                       const Environment& environment);

}  // namespace headrace::cli
