// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/evaluator.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "text/jinja/whitespace.h"

namespace headrace::text::jinja {
namespace {

Status at_line(int line, const Status& status) {
  return status.with_context(fmt::format("chat template, line {}", line));
}

class Evaluator {
 public:
  Evaluator(Map variables, const RenderLimits& limits) : limits_(limits) {
    scopes_.push_back(std::move(variables));
  }

  Status run(const Block& block) {
    for (const Statement& statement : block) {
      HEADRACE_RETURN_IF_ERROR(count_step(statement.line));
      HEADRACE_RETURN_IF_ERROR(std::visit(
          [&](const auto& node) { return execute(node, statement.line); }, statement.node));
    }
    return {};
  }

  std::string take_output() { return std::move(output_); }

 private:
  Status count_step(int line) {
    if (++steps_ <= limits_.max_steps) return {};
    return at_line(line, resource_exhausted(fmt::format(
                             "more than {} steps; shorten the conversation", limits_.max_steps)));
  }

  Status write(std::string_view text, int line) {
    if (text.size() > limits_.max_output_bytes - output_.size()) {
      return at_line(line, resource_exhausted(
                               fmt::format("more than {} bytes of output; shorten the conversation",
                                           limits_.max_output_bytes)));
    }
    output_ += text;
    return {};
  }

  Status execute(const Text& node, int line) { return write(node.text, line); }

  Status execute(const Output& node, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value value, evaluate(*node.value));
    const auto text = to_text(value);
    return text.ok() ? write(*text, line) : at_line(line, text.status());
  }

  Status execute(const Set& node, int) {
    HEADRACE_ASSIGN_OR_RETURN(Value value, evaluate(*node.value));
    assign(node.name, std::move(value));
    return {};
  }

  Status execute(const If& node, int) {
    for (const auto& [condition, body] : node.branches) {
      HEADRACE_ASSIGN_OR_RETURN(const Value value, evaluate(*condition));
      if (value.is_true()) return run(body);
    }
    return run(node.otherwise);
  }

  Status execute(const For& node, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value sequence, evaluate(*node.sequence));
    static const List kNothing;
    const List* items = sequence.undefined() ? &kNothing : sequence.list();
    if (!items) {
      return at_line(line, unsupported(fmt::format("a loop over a {} is not supported",
                                                   sequence.type_name())));
    }
    // What is set in a round, or in "else", is gone after it, as in Jinja.
    if (items->empty()) {
      scopes_.emplace_back();
      HEADRACE_RETURN_IF_ERROR(run(node.otherwise));
      scopes_.pop_back();
    }
    for (size_t i = 0; i < items->size(); ++i) {
      scopes_.push_back({{node.variable, (*items)[i]}, {"loop", loop_value(i, items->size())}});
      HEADRACE_RETURN_IF_ERROR(run(node.body));
      scopes_.pop_back();
    }
    return {};
  }

  static Value loop_value(size_t index, size_t length) {
    const auto number = [](size_t value) { return Value(static_cast<int64_t>(value)); };
    return Value(Map{{"first", Value(index == 0)},
                     {"last", Value(index + 1 == length)},
                     {"index0", number(index)},
                     {"index", number(index + 1)},
                     {"revindex0", number(length - index - 1)},
                     {"revindex", number(length - index)},
                     {"length", number(length)}});
  }

  void assign(const std::string& name, Value value) {
    for (auto& [known, held] : scopes_.back()) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    scopes_.back().emplace_back(name, std::move(value));
  }

  Result<Value> evaluate(const Expression& expression) {
    HEADRACE_RETURN_IF_ERROR(count_step(expression.line));
    return std::visit([&](const auto& node) { return evaluate(node, expression.line); },
                      expression.node);
  }

  Result<Value> evaluate(const Literal& node, int) { return node.value; }

  Result<Value> evaluate(const Name& node, int) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const Value* value = find(*scope, node.name)) return *value;
    }
    return Value(Undefined{node.name});
  }

  static Status of_undefined(const Undefined& undefined, int line) {
    return at_line(line, invalid_argument(fmt::format("\"{}\" is undefined", undefined.name)));
  }

  Result<Value> evaluate(const Attribute& node, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value object, evaluate(*node.object));
    if (object.undefined()) return of_undefined(*object.undefined(), line);
    const Value* value = object.map() ? find(*object.map(), node.name) : nullptr;
    return value ? *value : Value(Undefined{node.name});
  }

  Result<Value> evaluate(const Index& node, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value object, evaluate(*node.object));
    HEADRACE_ASSIGN_OR_RETURN(const Value key, evaluate(*node.key));
    if (object.undefined()) return of_undefined(*object.undefined(), line);
    if (object.map() && key.string()) {
      const Value* value = find(*object.map(), *key.string());
      return value ? *value : Value(Undefined{*key.string()});
    }
    if (object.list() && key.integer()) {
      const auto size = static_cast<int64_t>(object.list()->size());
      const int64_t position = *key.integer() < 0 ? *key.integer() + size : *key.integer();
      if (position >= 0 && position < size) return (*object.list())[static_cast<size_t>(position)];
      return Value(Undefined{fmt::format("[{}]", *key.integer())});
    }
    return at_line(line, unsupported(fmt::format("a {} as index of a {} is not supported",
                                                 key.type_name(), object.type_name())));
  }

  // "trim", the one filter that the parser lets through.
  Result<Value> evaluate(const Filter& node, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operand));
    const auto text = to_text(value);
    if (!text.ok()) return at_line(line, text.status());
    return Value(std::string(strip_left(strip_right(*text))));
  }

  Result<Value> evaluate(const Not& node, int) {
    HEADRACE_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operand));
    return Value(!value.is_true());
  }

  Result<Value> evaluate(const Chain& node, int line) {
    switch (node.op) {
      case ChainOperator::kAnd:
        return first_that_decides(node.operands, false);
      case ChainOperator::kOr:
        return first_that_decides(node.operands, true);
      case ChainOperator::kAdd:
        return sum(node.operands, line);
      case ChainOperator::kJoin:
        break;
    }
    return join(node.operands, line);
  }

  // The first operand whose truth is `deciding`, else the last; later ones are not evaluated.
  Result<Value> first_that_decides(const std::vector<ExpressionPtr>& operands, bool deciding) {
    Value value;
    for (const ExpressionPtr& operand : operands) {
      HEADRACE_ASSIGN_OR_RETURN(value, evaluate(*operand));
      if (value.is_true() == deciding) break;
    }
    return value;
  }

  Result<Value> sum(const std::vector<ExpressionPtr>& operands, int line) {
    HEADRACE_ASSIGN_OR_RETURN(const Value first, evaluate(*operands[0]));
    std::string text = first.string() ? *first.string() : std::string();
    std::optional<int64_t> number = as_number(first);
    for (size_t i = 1; i < operands.size(); ++i) {
      HEADRACE_ASSIGN_OR_RETURN(const Value next, evaluate(*operands[i]));
      for (const Value* value : {&first, &next}) {
        if (value->undefined()) return of_undefined(*value->undefined(), line);
      }
      const std::optional<int64_t> summand = as_number(next);
      if (first.string() && next.string()) {
        text += *next.string();
      } else if (!number || !summand || __builtin_add_overflow(*number, *summand, &*number)) {
        return at_line(line, invalid_argument(fmt::format("{} + {} cannot be computed",
                                                          first.type_name(), next.type_name())));
      }
    }
    if (first.string()) return Value(std::move(text));
    return Value(*number);
  }

  Result<Value> join(const std::vector<ExpressionPtr>& operands, int line) {
    std::string text;
    for (const ExpressionPtr& operand : operands) {
      HEADRACE_ASSIGN_OR_RETURN(const Value value, evaluate(*operand));
      const auto part = to_text(value);
      if (!part.ok()) return at_line(line, part.status());
      text += *part;
    }
    return Value(std::move(text));
  }

  Result<Value> evaluate(const Compare& node, int) {
    HEADRACE_ASSIGN_OR_RETURN(Value left, evaluate(*node.first));
    for (const auto& [op, operand] : node.rest) {
      HEADRACE_ASSIGN_OR_RETURN(Value right, evaluate(*operand));
      if (equal(left, right) != (op == CompareOperator::kEqual)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  const RenderLimits limits_;
  std::vector<Map> scopes_;
  std::string output_;
  int64_t steps_ = 0;
};

}  // namespace

Result<std::string> render(const Block& block, Map variables, const RenderLimits& limits) {
  Evaluator evaluator(std::move(variables), limits);
  HEADRACE_RETURN_IF_ERROR(evaluator.run(block));
  return evaluator.take_output();
}

}  // namespace headrace::text::jinja
