// SPDX-License-Identifier: Apache-2.0
// The options of each command as plain structs, checked as far as the command line alone allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "headrace/engine.h"
#include "headrace/sampling.h"
#include "headrace/status.h"

namespace headrace::cli {

// Where the text that a command works on comes from.
struct TextSource {
  enum class Kind { kNone, kLiteral, kFile, kStdin };
  Kind kind = Kind::kNone;
  std::string value;  // the text or the file's name
};

struct GenerateOptions {
  EngineOptions engine;
  TextSource prompt;  // kNone with `chat`
  bool chat = false;  // `message` goes through the chat template
  std::string message;
  std::string system;  // empty: no system message
  SamplingParams sampling;
  int32_t max_tokens = 128;
  bool ignore_eos = false;
  bool json = false;
};

struct TokenizeOptions {
  std::string model;
  bool decode = false;
  TextSource input;  // text, or the ids to decode
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  bool skip_special_tokens = false;
  bool json = false;
};

struct DoctorOptions {
  bool json = false;
};

Result<GenerateOptions> generate_options(const CommandLine& line);
Result<TokenizeOptions> tokenize_options(const CommandLine& line);
Result<DoctorOptions> doctor_options(const CommandLine& line);

// Ids with blanks, commas or line breaks between them, and [ ] around them if need be.
Result<std::vector<int32_t>> parse_token_ids(std::string_view text);

}  // namespace headrace::cli
