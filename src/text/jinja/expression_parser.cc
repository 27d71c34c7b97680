// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace headrace::text::jinja {
namespace {

// Brackets, "not" and accesses may nest this deep, so that the recursion here and in evaluation and
// release of the tree stays within any stack.
constexpr int kMaxDepth = 100;

constexpr std::array<std::string_view, 7> kLoopAttributes = {
    "first", "last", "index", "index0", "revindex", "revindex0", "length"};

template <typename Node>
ExpressionPtr make(int line, Node node) {
  return std::make_unique<const Expression>(Expression{line, std::move(node)});
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::parse() {
  if (++depth_ > kMaxDepth) return syntax_error(tokens_.line(), "expression nested too deeply");
  auto expression = parse_or();
  --depth_;
  if (!expression.ok()) return expression;
  if (tokens_.at_name("if")) return not_supported(tokens_.line(), "\"a if b else c\"");
  return expression;
}

Result<ExpressionPtr> ExpressionParser::parse_chain(ChainOperator op, std::string_view separator,
                                                    bool is_name, Step operand) {
  const int line = tokens_.line();
  std::vector<ExpressionPtr> operands;
  do {
    HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr next, (this->*operand)());
    operands.push_back(std::move(next));
  } while (is_name ? tokens_.skip_name(separator) : tokens_.skip_symbol(separator));
  if (operands.size() == 1) return std::move(operands.front());
  return make(line, Chain{op, std::move(operands)});
}

Result<ExpressionPtr> ExpressionParser::parse_or() {
  return parse_chain(ChainOperator::kOr, "or", true, &ExpressionParser::parse_and);
}

Result<ExpressionPtr> ExpressionParser::parse_and() {
  return parse_chain(ChainOperator::kAnd, "and", true, &ExpressionParser::parse_not);
}

Result<ExpressionPtr> ExpressionParser::parse_not() {
  const int line = tokens_.line();
  bool negated = false;
  bool any = false;
  while (tokens_.skip_name("not")) {
    negated = !negated;
    any = true;
  }
  HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr operand, parse_compare());
  if (!any) return operand;
  // An even number of them still makes a truth value of the operand.
  ExpressionPtr inner = make(line, Not{std::move(operand)});
  return negated ? std::move(inner) : make(line, Not{std::move(inner)});
}

Result<ExpressionPtr> ExpressionParser::parse_compare() {
  const int line = tokens_.line();
  HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr first, parse_add());
  Compare compare{std::move(first), {}};
  while (true) {
    CompareOperator op = CompareOperator::kEqual;
    if (tokens_.skip_symbol("!=")) {
      op = CompareOperator::kNotEqual;
    } else if (!tokens_.skip_symbol("==")) {
      break;
    }
    HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr operand, parse_add());
    compare.rest.emplace_back(op, std::move(operand));
  }
  for (const std::string_view other : {"<", ">", "<=", ">="}) {
    if (tokens_.at_symbol(other))
      return not_supported(tokens_.line(), fmt::format("\"{}\"", other));
  }
  for (const std::string_view other : {"in", "not"}) {
    if (tokens_.at_name(other)) return not_supported(tokens_.line(), fmt::format("\"{}\"", other));
  }
  if (compare.rest.empty()) return std::move(compare.first);
  return make(line, std::move(compare));
}

Result<ExpressionPtr> ExpressionParser::parse_add() {
  auto sum = parse_chain(ChainOperator::kAdd, "+", false, &ExpressionParser::parse_join);
  if (sum.ok() && tokens_.at_symbol("-")) return not_supported(tokens_.line(), "\"-\"");
  return sum;
}

Result<ExpressionPtr> ExpressionParser::parse_join() {
  auto joined = parse_chain(ChainOperator::kJoin, "~", false, &ExpressionParser::parse_postfix);
  if (!joined.ok()) return joined;
  for (const std::string_view other : {"*", "/", "//", "%", "**"}) {
    if (tokens_.at_symbol(other))
      return not_supported(tokens_.line(), fmt::format("\"{}\"", other));
  }
  return joined;
}

Result<std::string> ExpressionParser::parse_member_name() {
  if (tokens_.at(TokenKind::kName)) return tokens_.next().text;
  return syntax_error(tokens_.line(), fmt::format("name expected before {}", tokens_.describe()));
}

Result<ExpressionPtr> ExpressionParser::parse_postfix() {
  HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr value, parse_primary());
  bool filtered = false;
  for (int accesses = 0;; ++accesses) {
    const int line = tokens_.line();
    if (accesses > kMaxDepth) return syntax_error(line, "too many accesses in a row");
    if (tokens_.skip_symbol(".")) {
      if (filtered) return syntax_error(line, "\".\" after a filter; put the filter in brackets");
      HEADRACE_ASSIGN_OR_RETURN(std::string name, parse_member_name());
      if (tokens_.at_symbol("("))
        return not_supported(line, fmt::format("the method \"{}\"", name));
      value = make(line, Attribute{std::move(value), std::move(name)});
    } else if (tokens_.skip_symbol("[")) {
      if (filtered) return syntax_error(line, "\"[\" after a filter; put the filter in brackets");
      if (tokens_.at_symbol(":")) return not_supported(line, "a slice");
      HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr key, parse());
      if (tokens_.at_symbol(":") || tokens_.at_symbol(",")) return not_supported(line, "a slice");
      HEADRACE_RETURN_IF_ERROR(tokens_.expect_symbol("]"));
      value = make(line, Index{std::move(value), std::move(key)});
    } else if (tokens_.skip_symbol("|")) {
      HEADRACE_ASSIGN_OR_RETURN(std::string name, parse_member_name());
      if (name != "trim") return not_supported(line, fmt::format("the filter \"{}\"", name));
      if (tokens_.at_symbol("(")) return not_supported(line, "an argument of \"trim\"");
      value = make(line, Filter{std::move(value), std::move(name)});
      filtered = true;
    } else if (tokens_.at_symbol("(")) {
      return not_supported(line, "a call");
    } else if (tokens_.at_name("is")) {
      return not_supported(line, "the test \"is\"");
    } else {
      return value;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::parse_strings() {
  // Strings that follow each other are one.
  const int line = tokens_.line();
  std::string text;
  while (tokens_.at(TokenKind::kString)) text += tokens_.next().text;
  return make(line, Literal{Value(std::move(text))});
}

Result<ExpressionPtr> ExpressionParser::parse_primary() {
  const int line = tokens_.line();
  if (tokens_.at(TokenKind::kString)) return parse_strings();
  if (tokens_.at(TokenKind::kInteger)) {
    return make(line, Literal{Value(tokens_.next().integer)});
  }
  if (tokens_.at(TokenKind::kName)) return parse_name();
  if (tokens_.skip_symbol("(")) {
    if (tokens_.at_symbol(")")) return not_supported(line, "a tuple");
    HEADRACE_ASSIGN_OR_RETURN(ExpressionPtr inner, parse());
    if (tokens_.at_symbol(",")) return not_supported(line, "a tuple");
    HEADRACE_RETURN_IF_ERROR(tokens_.expect_symbol(")"));
    return inner;
  }
  if (tokens_.at_symbol("[")) return not_supported(line, "a list");
  if (tokens_.at_symbol("{")) return not_supported(line, "a dictionary");
  if (tokens_.at_symbol("+")) return not_supported(line, "a sign");
  if (tokens_.skip_symbol("-")) {
    if (!tokens_.at(TokenKind::kInteger)) return not_supported(line, "a sign");
    return make(line, Literal{Value(-tokens_.next().integer)});
  }
  return syntax_error(line, fmt::format("expression expected before {}", tokens_.describe()));
}

Result<ExpressionPtr> ExpressionParser::parse_name() {
  const int line = tokens_.line();
  std::string name = tokens_.next().text;
  if (name == "true" || name == "True") return make(line, Literal{Value(true)});
  if (name == "false" || name == "False") return make(line, Literal{Value(false)});
  if (name == "none" || name == "None") return make(line, Literal{Value()});
  if (tokens_.at_symbol("(")) return not_supported(line, fmt::format("the function \"{}\"", name));
  if (!names_.contains(name)) {
    return not_supported(line, fmt::format("the variable \"{}\"", name));
  }
  if (name == "loop") return parse_loop_attribute(line);
  return make(line, Name{std::move(name)});
}

Result<ExpressionPtr> ExpressionParser::parse_loop_attribute(int line) {
  if (!tokens_.skip_symbol(".")) return not_supported(line, "\"loop\" without an attribute");
  HEADRACE_ASSIGN_OR_RETURN(std::string attribute, parse_member_name());
  if (std::find(kLoopAttributes.begin(), kLoopAttributes.end(), attribute) ==
      kLoopAttributes.end()) {
    return not_supported(line, fmt::format("\"loop.{}\"", attribute));
  }
  return make(line, Attribute{make(line, Name{"loop"}), std::move(attribute)});
}

}  // namespace headrace::text::jinja
