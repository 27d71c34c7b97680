// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/core.h>

#include <initializer_list>
#include <limits>

#include "cli/numbers.h"
#include "headrace/dtype.h"

namespace headrace::cli {
namespace {

// Each read_* leaves `out` alone if the option was not given.
Status read_int32(const CommandLine& line, std::string_view name, int32_t& out) {
  const OptionValue* value = line.find(name);
  if (value == nullptr) return {};
  const auto parsed = parse_int32(value->text, 0, INT32_MAX);
  if (!parsed.ok()) return parsed.status().with_context(value->origin);
  out = *parsed;
  return {};
}

Status read_switch(const CommandLine& line, std::string_view name, bool& out) {
  const OptionValue* value = line.find(name);
  if (value == nullptr) return {};
  const auto parsed = parse_switch(value->text);
  if (!parsed.ok()) return parsed.status().with_context(value->origin);
  out = *parsed;
  return {};
}

Status read_negated_switch(const CommandLine& line, std::string_view name, bool& out) {
  bool negated = !out;
  HEADRACE_RETURN_IF_ERROR(read_switch(line, name, negated));
  out = !negated;
  return {};
}

Status read_float(const CommandLine& line, std::string_view name, std::string_view range,
                  bool (*in_range)(float), float& out) {
  const OptionValue* value = line.find(name);
  if (value == nullptr) return {};
  const auto parsed = parse_float(value->text);
  if (!parsed.ok()) return parsed.status().with_context(value->origin);
  if (!in_range(*parsed)) {
    return invalid_argument(
        fmt::format("{}: {} is out of range: give {}", value->origin, value->text, range));
  }
  out = *parsed;
  return {};
}

Status one_of(const OptionValue& value, std::string_view known) {
  return invalid_argument(
      fmt::format("{}: '{}' is not known: give {}", value.origin, value.text, known));
}

Status read_dtype(const CommandLine& line, std::optional<DType>& out) {
  const OptionValue* value = line.find("--dtype");
  if (value == nullptr || value->text == "auto") return {};
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (value->text != dtype_name(dtype)) continue;
    out = dtype;
    return {};
  }
  return one_of(*value, "auto, bf16, fp16 or fp32");
}

Status read_load_format(const CommandLine& line, LoadFormat& out) {
  const OptionValue* value = line.find("--load-format");
  if (value == nullptr || value->text == "auto" || value->text == "safetensors") return {};
  if (value->text != "dummy") return one_of(*value, "auto, safetensors or dummy");
  out = LoadFormat::kDummy;
  return {};
}

Status read_device(const CommandLine& line, DeviceChoice& out) {
  const OptionValue* value = line.find("--device");
  if (value == nullptr || value->text == "auto") return {};
  if (value->text != "cpu" && value->text != "cuda") return one_of(*value, "auto, cpu or cuda");
  out = value->text == "cpu" ? DeviceChoice::kCpu : DeviceChoice::kCuda;
  return {};
}

Status read_model(const CommandLine& line, std::string& out) {
  const OptionValue* value = line.find("--model");
  if (value == nullptr || value->text.empty()) {
    return invalid_argument(
        "no model: give its folder with --model FOLDER or in HEADRACE_MODEL, for example "
        "--model models/demo");
  }
  out = value->text;
  return {};
}

// The one source among `names` that was given. What is on the command line hides what the
// environment says, so that an exported HEADRACE_PROMPT does not forbid --chat.
Result<const OptionValue*> one_source(const CommandLine& line,
                                      std::initializer_list<std::string_view> names) {
  for (bool environment : {false, true}) {
    const OptionValue* found = nullptr;
    for (std::string_view name : names) {
      const OptionValue* value = line.find(name);
      if (value == nullptr || value->from_environment != environment) continue;
      if (found != nullptr) {
        return invalid_argument(fmt::format("{} and {} exclude each other: give one of them",
                                            found->origin, value->origin));
      }
      found = value;
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

TextSource file_source(const std::string& name) {
  if (name == "-") return {TextSource::Kind::kStdin, {}};
  return {TextSource::Kind::kFile, name};
}

Status read_prompt(const CommandLine& line, GenerateOptions& out) {
  HEADRACE_ASSIGN_OR_RETURN(const OptionValue* source,
                            one_source(line, {"--prompt", "--prompt-file", "--chat"}));
  const OptionValue* system = line.find("--system");
  out.chat = source != nullptr && source == line.find("--chat");
  if (out.chat) {
    out.message = source->text;
    if (system != nullptr) out.system = system->text;
    return {};
  }
  if (system != nullptr && !system->from_environment) {
    return invalid_argument("--system goes with --chat: give the message with --chat MESSAGE");
  }
  if (source == nullptr) {
    out.prompt = {TextSource::Kind::kStdin, {}};
  } else if (source == line.find("--prompt")) {
    out.prompt = {TextSource::Kind::kLiteral, source->text};
  } else {
    out.prompt = file_source(source->text);
  }
  return {};
}

}  // namespace

Result<GenerateOptions> generate_options(const CommandLine& line) {
  GenerateOptions out;
  out.engine.max_num_seqs = 1;
  HEADRACE_RETURN_IF_ERROR(read_model(line, out.engine.model));
  HEADRACE_RETURN_IF_ERROR(read_load_format(line, out.engine.load_format));
  HEADRACE_RETURN_IF_ERROR(read_device(line, out.engine.device));
  HEADRACE_RETURN_IF_ERROR(read_dtype(line, out.engine.dtype));
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--max-model-len", out.engine.max_model_len));
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--page-size", out.engine.page_size));
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--num-pages", out.engine.num_pages));
  if (const OptionValue* bytes = line.find("--memory-bytes"); bytes != nullptr) {
    const auto parsed = parse_uint64(bytes->text);
    if (!parsed.ok()) return parsed.status().with_context(bytes->origin);
    if (*parsed > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return invalid_argument(bytes->origin + ": more bytes than any machine has");
    }
    out.engine.memory_bytes = static_cast<int64_t>(*parsed);
  }
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--threads", out.engine.num_threads));
  HEADRACE_RETURN_IF_ERROR(read_prompt(line, out));
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--max-tokens", out.max_tokens));
  HEADRACE_RETURN_IF_ERROR(read_float(
      line, "--temperature", "0 or more", [](float t) { return t >= 0; },
      out.sampling.temperature));
  HEADRACE_RETURN_IF_ERROR(read_int32(line, "--top-k", out.sampling.top_k));
  HEADRACE_RETURN_IF_ERROR(read_float(
      line, "--top-p", "more than 0 and at most 1", [](float p) { return p > 0 && p <= 1; },
      out.sampling.top_p));
  if (const OptionValue* seed = line.find("--seed"); seed != nullptr) {
    const auto parsed = parse_uint64(seed->text);
    if (!parsed.ok()) return parsed.status().with_context(seed->origin);
    out.sampling.seed = *parsed;
  }
  HEADRACE_RETURN_IF_ERROR(read_switch(line, "--ignore-eos", out.ignore_eos));
  HEADRACE_RETURN_IF_ERROR(read_switch(line, "--json", out.json));
  return out;
}

Result<TokenizeOptions> tokenize_options(const CommandLine& line) {
  TokenizeOptions out;
  HEADRACE_RETURN_IF_ERROR(read_model(line, out.model));
  HEADRACE_ASSIGN_OR_RETURN(const OptionValue* source,
                            one_source(line, {"--prompt-file", "--ids"}));
  if (!line.positionals.empty()) {
    if (source != nullptr && !source->from_environment) {
      return invalid_argument(
          fmt::format("TEXT and {} exclude each other: give one of them", source->origin));
    }
    out.input = {TextSource::Kind::kLiteral, line.positionals[0]};
  } else if (source == nullptr) {
    out.input = {TextSource::Kind::kStdin, {}};
  } else if (source == line.find("--prompt-file")) {
    out.input = file_source(source->text);
  } else {
    out.decode = true;
    out.input = {source->text == "-" ? TextSource::Kind::kStdin : TextSource::Kind::kLiteral,
                 source->text};
  }
  HEADRACE_RETURN_IF_ERROR(
      read_negated_switch(line, "--no-add-special-tokens", out.add_special_tokens));
  HEADRACE_RETURN_IF_ERROR(
      read_negated_switch(line, "--no-parse-special-tokens", out.parse_special_tokens));
  HEADRACE_RETURN_IF_ERROR(read_switch(line, "--skip-special-tokens", out.skip_special_tokens));
  HEADRACE_RETURN_IF_ERROR(read_switch(line, "--json", out.json));
  return out;
}

Result<DoctorOptions> doctor_options(const CommandLine& line) {
  DoctorOptions out;
  HEADRACE_RETURN_IF_ERROR(read_switch(line, "--json", out.json));
  return out;
}

Result<std::vector<int32_t>> parse_token_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,";
  const auto trim = [&] {
    const size_t begin = text.find_first_not_of(kBetween);
    text = begin == std::string_view::npos
               ? std::string_view()
               : text.substr(begin, text.find_last_not_of(kBetween) + 1 - begin);
  };
  trim();
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
    trim();
  }
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const size_t end = text.find_first_of(kBetween);
    const auto id = parse_int32(text.substr(0, end), 0, INT32_MAX);
    if (!id.ok()) {
      return id.status().with_context(fmt::format("token id number {}", ids.size() + 1));
    }
    ids.push_back(*id);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end);
    trim();
  }
  return ids;
}

}  // namespace headrace::cli
