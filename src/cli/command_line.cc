// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <fmt/core.h>

#include "cli/nearest.h"

namespace headrace::cli {
namespace {

bool looks_like_option(std::string_view arg) { return arg.size() > 1 && arg[0] == '-'; }

Status unknown_option(const VerbSpec& verb, std::string_view name) {
  std::vector<std::string_view> names = {"--help"};
  for (const OptionSpec& spec : verb.options) names.push_back(spec.name);
  const std::string_view near = nearest(name, names);
  return invalid_argument(near.empty()
                              ? fmt::format("unknown option {}", name)
                              : fmt::format("unknown option {}; did you mean {}?", name, near));
}

Status unexpected_argument(const VerbSpec& verb, std::string_view arg) {
  if (verb.find("--prompt") != nullptr) {
    return invalid_argument(
        fmt::format("unexpected argument '{}'; the prompt follows --prompt, in quotes", arg));
  }
  if (!verb.positional.empty()) {
    return invalid_argument(fmt::format("unexpected argument '{}'; put a {} with blanks in quotes",
                                        arg, verb.positional));
  }
  return invalid_argument(fmt::format("unexpected argument '{}'", arg));
}

Status missing_value(const OptionSpec& spec, std::string_view next) {
  if (next.empty()) {
    return invalid_argument(
        fmt::format("{} needs a value: {} {}", spec.name, spec.name, spec.value));
  }
  return invalid_argument(
      fmt::format("{} needs a value and {} follows; to pass that as the value "
                  "write {}={}",
                  spec.name, next, spec.name, next));
}

void add_environment(const VerbSpec& verb, const Environment& environment, CommandLine& line) {
  for (const OptionSpec& spec : verb.options) {
    if (line.find(spec.name) != nullptr) continue;
    const std::string variable = environment_name(spec.name);
    const char* value = environment(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    line.options[std::string(spec.name)] = {value, variable, true};
  }
}

}  // namespace

const OptionValue* CommandLine::find(std::string_view option) const {
  const auto found = options.find(option);
  return found == options.end() ? nullptr : &found->second;
}

Result<CommandLine> parse_command_line(const VerbSpec& verb, const std::vector<std::string>& args,
                                       const Environment& environment) {
  CommandLine line;
  bool options_ended = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (options_ended || !looks_like_option(arg)) {
      if (verb.positional.empty() || !line.positionals.empty()) {
        return unexpected_argument(verb, arg);
      }
      line.positionals.emplace_back(arg);
      continue;
    }
    if (arg == "--") {
      options_ended = true;
      continue;
    }
    if (arg == "--help" || arg == "-h") {
      line.help = true;
      return line;
    }
    const size_t equals = arg.find('=');
    const std::string_view name = arg.substr(0, equals);
    const OptionSpec* spec = verb.find(name);
    if (spec == nullptr) return unknown_option(verb, name);

    OptionValue value{"true", std::string(name), false};
    if (equals != std::string_view::npos) {
      value.text = arg.substr(equals + 1);
    } else if (!spec->is_switch()) {
      if (i + 1 == args.size()) return missing_value(*spec, "");
      // A forgotten value, most likely; a text that begins with dashes is taken as it is.
      if (verb.find(args[i + 1]) != nullptr) return missing_value(*spec, args[i + 1]);
      value.text = args[++i];
    }
    line.options[std::string(name)] = std::move(value);
  }
  add_environment(verb, environment, line);
  return line;
}

}  // namespace headrace::cli
