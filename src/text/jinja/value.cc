// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace::text::jinja {
std::optional<int64_t> as_number(const Value& value) {
  if (value.boolean()) return *value.boolean() ? 1 : 0;
  if (value.integer()) return *value.integer();
  return std::nullopt;
}

bool Value::is_true() const {
  if (string()) return !string()->empty();
  if (list()) return !list()->empty();
  if (map()) return !map()->empty();
  return as_number(*this).value_or(0) != 0;
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none", "bool", "integer",
                                         "string",    "list", "map"};
  return kNames[data_.index()];
}

const Value* find(const Map& map, std::string_view key) {
  const auto found =
      std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.first == key; });
  return found == map.end() ? nullptr : &found->second;
}

bool equal(const Value& a, const Value& b) {
  if (const auto left = as_number(a)) return left == as_number(b);
  if (a.string() && b.string()) return *a.string() == *b.string();
  if (a.list() && b.list()) {
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(),
                      equal);
  }
  if (a.map() && b.map()) {
    return a.map()->size() == b.map()->size() &&
           std::all_of(a.map()->begin(), a.map()->end(), [&](const auto& entry) {
             const Value* other = find(*b.map(), entry.first);
             return other && equal(entry.second, *other);
           });
  }
  return (a.is_none() && b.is_none()) || (a.undefined() && b.undefined());
}

Result<std::string> to_text(const Value& value) {
  if (value.string()) return *value.string();
  if (value.undefined()) return std::string();
  if (value.is_none()) return std::string("None");
  if (value.boolean()) return std::string(*value.boolean() ? "True" : "False");
  if (value.integer()) return fmt::format("{}", *value.integer());
  return unsupported(fmt::format("a {} as text is not supported", value.type_name()));
}

}  // namespace headrace::text::jinja
