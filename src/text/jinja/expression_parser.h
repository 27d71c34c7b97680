// SPDX-License-Identifier: Apache-2.0
// Parses the expression at a cursor, by precedence: or, and, not, comparison, +, ~, then filters
// and accesses. Knows no statements.
#pragma once

#include <set>
#include <string>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace headrace::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Result<ExpressionPtr> parse();
  // From here on the template may read `name`.
  void declare(const std::string& name) { names_.insert(name); }

 private:
  Result<ExpressionPtr> parse_or();
  Result<ExpressionPtr> parse_and();
  Result<ExpressionPtr> parse_not();
  Result<ExpressionPtr> parse_compare();
  Result<ExpressionPtr> parse_add();
  Result<ExpressionPtr> parse_join();
  Result<ExpressionPtr> parse_postfix();
  Result<ExpressionPtr> parse_primary();
  Result<ExpressionPtr> parse_name();
  Result<ExpressionPtr> parse_loop_attribute(int line);
  Result<ExpressionPtr> parse_strings();
  Result<std::string> parse_member_name();

  using Step = Result<ExpressionPtr> (ExpressionParser::*)();
  // operand (separator operand)*; `is_name`: the separator is a word.
  Result<ExpressionPtr> parse_chain(ChainOperator op, std::string_view separator, bool is_name,
                                    Step operand);

  TokenStream& tokens_;
  std::set<std::string> names_;
  int depth_ = 0;
};

}  // namespace headrace::text::jinja
