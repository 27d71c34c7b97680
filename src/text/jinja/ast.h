// SPDX-License-Identifier: Apache-2.0
// A parsed template. Chains of one operator are one node with many operands, so that the depth of
// the tree is bounded by how deep the template nests. Knows neither how it was written nor what it
// will be applied to.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace headrace::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Index {  // object[key]
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Filter {  // operand | name
  ExpressionPtr operand;
  std::string name;
};
struct Not {
  ExpressionPtr operand;
};
enum class ChainOperator { kAnd, kOr, kAdd, kJoin };  // and, or, +, ~
struct Chain {
  ChainOperator op;
  std::vector<ExpressionPtr> operands;  // two or more
};
enum class CompareOperator { kEqual, kNotEqual };
struct Compare {  // first op1 a op2 b …: all of (first op1 a), (a op2 b), …
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
};

struct Expression {
  int line = 0;
  std::variant<Literal, Name, Attribute, Index, Filter, Not, Chain, Compare> node;
};

struct Statement;
using Block = std::vector<Statement>;

struct Text {
  std::string text;
};
struct Output {  // {{ value }}
  ExpressionPtr value;
};
struct Set {
  std::string name;
  ExpressionPtr value;
};
struct For {
  std::string variable;
  ExpressionPtr sequence;
  Block body;
  Block otherwise;  // for an empty sequence
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;  // the first true one is taken
  Block otherwise;
};

struct Statement {
  int line = 0;
  std::variant<Text, Output, Set, For, If> node;
};

}  // namespace headrace::text::jinja
