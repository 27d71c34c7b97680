// SPDX-License-Identifier: Apache-2.0
#include "text/json_access.h"

#include <fmt/format.h>

#include <utility>

namespace headrace::text::json {

Status wrong_type(std::string_view path, std::string_view wanted) {
  return invalid_data(fmt::format("\"{}\" must be {}", path, wanted));
}

std::string Object::path(std::string_view key) const {
  return name.empty() ? std::string(key) : fmt::format("{}.{}", name, key);
}

std::optional<element> Object::find(std::string_view key) const {
  element found;
  if (value.at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return found;
}

Result<bool> Object::get_bool(std::string_view key, bool default_value) const {
  const std::optional<element> found = find(key);
  if (!found) return default_value;
  bool flag = false;
  if (found->get(flag) != simdjson::SUCCESS) return wrong_type(path(key), "true or false");
  return flag;
}

Result<std::string_view> Object::get_string(std::string_view key) const {
  const std::optional<element> found = find(key);
  if (!found) return invalid_data(fmt::format("\"{}\" is missing", path(key)));
  std::string_view text;
  if (found->get(text) != simdjson::SUCCESS) return wrong_type(path(key), "a string");
  return text;
}

Result<std::string_view> Object::get_string(std::string_view key,
                                            std::string_view default_value) const {
  return has(key) ? get_string(key) : Result<std::string_view>(default_value);
}

Result<Object> Object::get_object(std::string_view key) const {
  const std::optional<element> found = find(key);
  if (!found) return invalid_data(fmt::format("\"{}\" is missing", path(key)));
  return as_object(*found, path(key));
}

Result<array> Object::get_array(std::string_view key) const {
  const std::optional<element> found = find(key);
  if (!found) return invalid_data(fmt::format("\"{}\" is missing", path(key)));
  array list;
  if (found->get(list) != simdjson::SUCCESS) return wrong_type(path(key), "an array");
  return list;
}

Result<Object> as_object(element value, std::string name) {
  object members;
  if (value.get(members) != simdjson::SUCCESS) return wrong_type(name, "an object");
  return Object{members, std::move(name)};
}

}  // namespace headrace::text::json
