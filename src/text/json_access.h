// SPDX-License-Identifier: Apache-2.0
// Typed access to members of a simdjson document, with errors that name the member. Knows no
// tokenizer.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace::text::json {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// An object and its name in messages, e.g. "model".
struct Object {
  object value;
  std::string name;

  std::string path(std::string_view key) const;
  // Absent and null are the same.
  std::optional<element> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }

  Result<bool> get_bool(std::string_view key, bool default_value) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view default_value) const;
  Result<Object> get_object(std::string_view key) const;
  Result<array> get_array(std::string_view key) const;
};

Result<Object> as_object(element value, std::string name);

// "wants a string" and so on, for the member at `path`.
Status wrong_type(std::string_view path, std::string_view wanted);

}  // namespace headrace::text::json
