// SPDX-License-Identifier: Apache-2.0
// The table of commands and options: what the parser accepts, what --help prints and which
// environment variables exist all come from here. Knows nothing of what an option does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headrace::cli {

struct OptionSpec {
  std::string_view name;      // "--max-tokens"
  std::string_view value;     // "N"; empty for a switch
  std::string_view fallback;  // the built-in value as text; empty if there is none
  std::string_view group;     // heading in --help
  std::string_view help;      // may have line breaks

  bool is_switch() const { return value.empty(); }
};

struct VerbSpec {
  std::string_view name;
  std::string_view summary;
  std::string_view positional;  // "TEXT"; empty if the command takes none
  std::string_view description;
  std::vector<OptionSpec> options;  // in the order of --help, --help itself left out
  std::string_view examples;

  const OptionSpec* find(std::string_view option) const;
};

// generate, tokenize, doctor.
const std::vector<VerbSpec>& verbs();
// Null if there is no such command.
const VerbSpec* find_verb(std::string_view name);

// "--max-tokens" -> "HEADRACE_MAX_TOKENS".
std::string environment_name(std::string_view option);

}  // namespace headrace::cli
