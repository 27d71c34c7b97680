// SPDX-License-Identifier: Apache-2.0
// The values of a template: what Python would call None, bool, int, str, list and dict, and
// "undefined". Cheap to copy. Knows no syntax.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "headrace/status.h"

namespace headrace::text::jinja {

class Value;
struct Undefined {
  std::string name;  // what was looked for, for messages
};
struct None {};
using List = std::vector<Value>;
using Map = std::vector<std::pair<std::string, Value>>;  // in order of insertion

class Value {
 public:
  Value() : data_(None{}) {}
  explicit Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(bool flag) : data_(flag) {}
  explicit Value(int64_t number) : data_(number) {}
  explicit Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  explicit Value(List list) : data_(std::make_shared<const List>(std::move(list))) {}
  explicit Value(Map map) : data_(std::make_shared<const Map>(std::move(map))) {}

  // Null if it is something else.
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  const std::string* string() const { return pointee<std::string>(); }
  const List* list() const { return pointee<List>(); }
  const Map* map() const { return pointee<Map>(); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }

  bool is_true() const;
  // "string", "list", ... for messages.
  std::string_view type_name() const;

 private:
  template <typename T>
  const T* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<const T>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }

  std::variant<Undefined, None, bool, int64_t, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Map>>
      data_;
};

// An integer or a bool, which counts as 1 or 0 as in Python.
std::optional<int64_t> as_number(const Value& value);
// a == b of Python.
bool equal(const Value& a, const Value& b);
// str(value); kUnsupported for lists and maps.
Result<std::string> to_text(const Value& value);
// Null if the map has no such key.
const Value* find(const Map& map, std::string_view key);

}  // namespace headrace::text::jinja
