// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/core.h>

#include <algorithm>

namespace headrace::cli {
namespace {

constexpr size_t kHelpColumn = 26;

constexpr std::string_view kExitCodes =
    "Exit codes:\n"
    "  0    done\n"
    "  1    failed while running: no memory, the output could not be written\n"
    "  2    the command line, the environment or the prompt is wrong\n"
    "  3    the model folder or an input file is missing, broken or not supported\n"
    "  130  ended by Ctrl-C (143: by SIGTERM)\n"
    "  141  who read the output has closed it\n";

// `head` in the left column, `text` in the right one; its line breaks are kept.
void append_entry(std::string& out, std::string_view head, std::string_view text) {
  out += fmt::format("  {}", head);
  size_t column = head.size() + 2;
  if (column + 2 > kHelpColumn) {
    out += '\n';
    column = 0;
  }
  while (true) {
    const size_t line_end = text.find('\n');
    out.append(kHelpColumn - column, ' ');
    out += text.substr(0, line_end);
    out += '\n';
    if (line_end == std::string_view::npos) return;
    text.remove_prefix(line_end + 1);
    column = 0;
  }
}

void append_option(std::string& out, const OptionSpec& spec) {
  const std::string head =
      spec.is_switch() ? std::string(spec.name) : fmt::format("{} {}", spec.name, spec.value);
  std::string text = fmt::format("{}\n[", spec.help);
  if (!spec.fallback.empty()) text += fmt::format("default {}; ", spec.fallback);
  append_entry(out, head, text + environment_name(spec.name) + "]");
}

}  // namespace

std::string program_help() {
  std::string out =
      "Usage: headrace COMMAND [OPTION]...\n"
      "\n"
      "Runs language models that mix paged attention with Gated DeltaNet layers, and plain ones.\n"
      "\n"
      "Commands:\n";
  for (const VerbSpec& verb : verbs()) append_entry(out, verb.name, verb.summary);
  out += "\nOptions:\n";
  append_entry(out, "--version", "print the version");
  append_entry(out, "--licenses", "print the licences of what this program contains");
  append_entry(out, "-h, --help", "print this; headrace COMMAND --help tells more");
  out += "\nExamples:\n";
  for (const VerbSpec& verb : verbs()) {
    out += verb.examples.substr(0, verb.examples.find('\n') + 1);
  }
  out += '\n';
  out += kExitCodes;
  return out;
}

std::string verb_help(const VerbSpec& verb) {
  std::string out = fmt::format("Usage: headrace {} [OPTION]...", verb.name);
  if (!verb.positional.empty()) out += fmt::format(" [{}]", verb.positional);
  out += fmt::format("\n\n{}\n", verb.description);
  std::string_view group;
  for (const OptionSpec& spec : verb.options) {
    if (spec.group != group) {
      group = spec.group;
      out += fmt::format("\n{}:\n", group);
    }
    append_option(out, spec);
  }
  append_entry(out, "-h, --help", "print this");
  out += fmt::format(
      "\nThe variable in brackets stands in for an option that is not given; an empty one counts "
      "as\n"
      "not set. Switches take true or false there, and as --switch=false.\n"
      "\nExamples:\n{}\n{}",
      verb.examples, kExitCodes);
  return out;
}

}  // namespace headrace::cli
