// SPDX-License-Identifier: Apache-2.0
// The program `headrace`: finds the command and hands over to it.
#include <fmt/core.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/nearest.h"
#include "headrace/version.h"

namespace headrace::cli {
namespace {

int usage_error(const std::string& message, const std::string& where) {
  print_error(fmt::format("{}\n(headrace {}--help lists what there is)", message, where));
  return kExitUsage;
}

int unknown_command(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  std::vector<std::string_view> known = {"--help", "--version", "--licenses"};
  for (const VerbSpec& verb : verbs()) {
    if (verb.find(name) != nullptr) {
      return usage_error(
          fmt::format("{0} comes after the command: headrace {1} {0} ...", name, verb.name), "");
    }
    known.push_back(verb.name);
    for (const OptionSpec& spec : verb.options) known.push_back(spec.name);
  }
  const std::string_view near = nearest(word, known);
  const char* kind = word.substr(0, 1) == "-" ? "option" : "command";
  return usage_error(near.empty()
                         ? fmt::format("unknown {} {}", kind, word)
                         : fmt::format("unknown {} {}; did you mean {}?", kind, word, near),
                     "");
}

int run(const std::vector<std::string>& args, Interrupts& interrupts) {
  if (args.empty()) return usage_error("no command given: generate, tokenize or doctor", "");
  const std::string& word = args[0];
  if (word == "--help" || word == "-h") return print_output(program_help());
  if (word == "--version") return print_output(fmt::format("headrace {}\n", version()));
  if (word == "--licenses") return print_output(third_party_notices());
  const VerbSpec* verb = find_verb(word);
  if (verb == nullptr) return unknown_command(word);

  const auto line = parse_command_line(*verb, {args.begin() + 1, args.end()},
                                       [](const char* name) { return std::getenv(name); });
  const auto refuse = [&](const Status& status) {
    return usage_error(status.message(), word + " ");
  };
  if (!line.ok()) return refuse(line.status());
  if (line->help) return print_output(verb_help(*verb));
  if (word == "generate") {
    const auto options = generate_options(*line);
    return options.ok() ? generate(*options, interrupts) : refuse(options.status());
  }
  if (word == "tokenize") {
    const auto options = tokenize_options(*line);
    return options.ok() ? tokenize(*options) : refuse(options.status());
  }
  const auto options = doctor_options(*line);
  return options.ok() ? doctor(*options) : refuse(options.status());
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
  headrace::cli::open_missing_standard_streams();
  headrace::cli::Interrupts interrupts;
  try {
    return headrace::cli::run({argv + 1, argv + argc}, interrupts);
  } catch (const std::exception& error) {  // no memory for the command line's own work
    headrace::cli::print_error(error.what());
    return headrace::cli::kExitFailure;
  }
}
