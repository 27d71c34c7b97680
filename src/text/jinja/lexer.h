// SPDX-License-Identifier: Apache-2.0
// A template's source as tokens, with white space control as chat templates are used: the line end
// after a block is dropped (trim_blocks) and the indentation before one too (lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.h"

namespace headrace::text::jinja {

enum class TokenKind {
  kText,         // template text, as it is put out
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kName,
  kString,   // `text` has its escapes resolved
  kInteger,  // `integer`
  kSymbol,   // operator or punctuation
  kEnd,      // of the template
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;  // from 1
  std::string text;
  int64_t integer = 0;
};

// Always ends with kEnd. Comments leave no token.
Result<std::vector<Token>> tokenize(std::string_view source);

// Error messages of templates: "line 3: ...".
Status syntax_error(int line, std::string_view message);
Status not_supported(int line, std::string_view construct);

}  // namespace headrace::text::jinja
