// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/token_stream.h"

namespace headrace::text::jinja {
namespace {

constexpr int kMaxDepth = 100;  // of blocks in blocks

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::vector<std::string>& variables)
      : tokens_(std::move(tokens)), expressions_(tokens_) {
    for (const std::string& name : variables) expressions_.declare(name);
  }

  Result<Block> parse() {
    HEADRACE_ASSIGN_OR_RETURN(Block block, parse_block({}));
    if (!tokens_.at(TokenKind::kEnd)) {
      // parse_block({}) stops only at the end or at a tag that ends something.
      return syntax_error(tokens_.line(), fmt::format("{} ends nothing", tokens_.describe()));
    }
    return block;
  }

 private:
  // Statements up to a tag whose name is in `ends`; leaves the cursor after that name, or at the
  // end of the template if `ends` is empty.
  Result<Block> parse_block(const std::vector<std::string_view>& ends) {
    if (++depth_ > kMaxDepth) return syntax_error(tokens_.line(), "blocks nested too deeply");
    Block block;
    while (!tokens_.at(TokenKind::kEnd)) {
      const int line = tokens_.line();
      const Token& token = tokens_.next();
      if (token.kind == TokenKind::kText) {
        block.push_back({line, Text{token.text}});
      } else if (token.kind == TokenKind::kOutputBegin) {
        HEADRACE_ASSIGN_OR_RETURN(Statement output, parse_output(line));
        block.push_back(std::move(output));
      } else {
        if (!tokens_.at(TokenKind::kName)) {
          return syntax_error(line, fmt::format("name expected before {}", tokens_.describe()));
        }
        end_name_ = tokens_.next().text;
        if (std::find(ends.begin(), ends.end(), end_name_) != ends.end()) {
          --depth_;
          return block;
        }
        HEADRACE_ASSIGN_OR_RETURN(Statement statement, parse_statement(line, end_name_));
        block.push_back(std::move(statement));
      }
    }
    if (!ends.empty()) {
      return syntax_error(tokens_.line(),
                          fmt::format("the template ends before \"{}\"", ends.back()));
    }
    --depth_;
    return block;
  }

  Result<Statement> parse_output(int line) {
    HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.parse());
    if (tokens_.at_symbol(",")) return not_supported(line, "a tuple");
    if (!tokens_.at(TokenKind::kOutputEnd)) {
      return syntax_error(tokens_.line(),
                          fmt::format("\"}}}}\" expected before {}", tokens_.describe()));
    }
    tokens_.next();
    return Statement{line, Output{std::move(value)}};
  }

  Result<Statement> parse_statement(int line, const std::string& name) {
    if (name == "for") return parse_for(line);
    if (name == "if") return parse_if(line);
    if (name == "set") return parse_set(line);
    for (const std::string_view end : {"endfor", "endif", "else", "elif"}) {
      if (name == end) return syntax_error(line, fmt::format("\"{}\" ends nothing", name));
    }
    return not_supported(line, fmt::format("the statement \"{}\"", name));
  }

  // A name that may be assigned to.
  Result<std::string> parse_target(int line) {
    if (!tokens_.at(TokenKind::kName)) {
      return syntax_error(line, fmt::format("name expected before {}", tokens_.describe()));
    }
    std::string name = tokens_.next().text;
    for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None",
                                            "loop", "not", "and", "or", "in", "is", "if", "else"}) {
      if (name == reserved) return syntax_error(line, fmt::format("\"{}\" cannot be set", name));
    }
    if (tokens_.at_symbol(",")) return not_supported(line, "more than one variable");
    if (tokens_.at_symbol(".")) return not_supported(line, "setting an attribute");
    return name;
  }

  Result<Statement> parse_for(int line) {
    For loop;
    HEADRACE_ASSIGN_OR_RETURN(loop.variable, parse_target(line));
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_name("in"));
    HEADRACE_ASSIGN_OR_RETURN(loop.sequence, expressions_.parse());
    if (tokens_.at_name("recursive")) return not_supported(line, "a recursive loop");
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
    expressions_.declare(loop.variable);
    expressions_.declare("loop");
    HEADRACE_ASSIGN_OR_RETURN(loop.body, parse_block({"else", "endfor"}));
    if (end_name_ == "else") {
      HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
      HEADRACE_ASSIGN_OR_RETURN(loop.otherwise, parse_block({"endfor"}));
    }
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
    return Statement{line, std::move(loop)};
  }

  Result<Statement> parse_if(int line) {
    If statement;
    do {
      HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.parse());
      HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
      HEADRACE_ASSIGN_OR_RETURN(Block body, parse_block({"elif", "else", "endif"}));
      statement.branches.emplace_back(std::move(condition), std::move(body));
    } while (end_name_ == "elif");
    if (end_name_ == "else") {
      HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
      HEADRACE_ASSIGN_OR_RETURN(statement.otherwise, parse_block({"endif"}));
    }
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
    return Statement{line, std::move(statement)};
  }

  Result<Statement> parse_set(int line) {
    Set assignment;
    HEADRACE_ASSIGN_OR_RETURN(assignment.name, parse_target(line));
    if (!tokens_.skip_symbol("=")) return not_supported(line, "\"set\" without \"=\"");
    HEADRACE_ASSIGN_OR_RETURN(assignment.value, expressions_.parse());
    if (tokens_.at_symbol(",")) return not_supported(line, "a tuple");
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_block_end());
    expressions_.declare(assignment.name);
    return Statement{line, std::move(assignment)};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string end_name_;  // of the tag at which the last block stopped
  int depth_ = 0;
};

}  // namespace

Result<Block> parse_template(std::string_view source, const std::vector<std::string>& variables) {
  HEADRACE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens), variables).parse();
}

}  // namespace headrace::text::jinja
