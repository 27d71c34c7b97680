// SPDX-License-Identifier: Apache-2.0
// A cursor over tokens, shared by the parsers of statements and of expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"

namespace headrace::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }
  int line() const { return peek().line; }

  bool at(TokenKind kind) const { return peek().kind == kind; }
  bool at(TokenKind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }
  bool at_symbol(std::string_view text) const { return at(TokenKind::kSymbol, text); }
  bool at_name(std::string_view text) const { return at(TokenKind::kName, text); }
  bool skip_symbol(std::string_view text) { return at_symbol(text) && (next(), true); }
  bool skip_name(std::string_view text) { return at_name(text) && (next(), true); }

  Status expect_symbol(std::string_view text);
  Status expect_name(std::string_view text);
  Status expect_block_end();
  // What stands here, for messages: "\"foo\"" or "the end of the block".
  std::string describe() const;

 private:
  std::vector<Token> tokens_;  // ends with kEnd
  size_t at_ = 0;
};

}  // namespace headrace::text::jinja
