// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/token_stream.h"

#include <fmt/format.h>

namespace headrace::text::jinja {

std::string TokenStream::describe() const {
  switch (peek().kind) {
    case TokenKind::kText:
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kBlockBegin:
      return "\"{%\"";
    case TokenKind::kBlockEnd:
      return "\"%}\"";
    case TokenKind::kOutputBegin:
      return "\"{{\"";
    case TokenKind::kOutputEnd:
      return "\"}}\"";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kSymbol:
      break;
  }
  return fmt::format("\"{}\"", peek().text);
}

Status TokenStream::expect_symbol(std::string_view text) {
  if (skip_symbol(text)) return {};
  return syntax_error(line(), fmt::format("\"{}\" expected before {}", text, describe()));
}

Status TokenStream::expect_name(std::string_view text) {
  if (skip_name(text)) return {};
  return syntax_error(line(), fmt::format("\"{}\" expected before {}", text, describe()));
}

Status TokenStream::expect_block_end() {
  if (at(TokenKind::kBlockEnd)) {
    next();
    return {};
  }
  return syntax_error(line(), fmt::format("\"%}}\" expected before {}", describe()));
}

}  // namespace headrace::text::jinja
