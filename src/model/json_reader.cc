// SPDX-License-Identifier: Apache-2.0
#include "model/json_reader.h"

#include <fmt/format.h>

namespace headrace::model {

std::string shown(const nlohmann::json& value) {
  constexpr size_t kShown = 60;
  if (value.is_structured()) {
    return fmt::format("{} of {}", value.is_array() ? "a list" : "an object", value.size());
  }
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > kShown ? text.substr(0, kShown) + "…" : text;
}

Result<JsonReader> JsonReader::parse(const std::string& text) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return invalid_data(fmt::format("is not valid JSON near byte {}", error.byte));
  } catch (const nlohmann::json::exception&) {  // e.g. a number out of every range
    return invalid_data("is not valid JSON");
  }
  if (!root.is_object()) return invalid_data("is not a JSON object");
  return JsonReader(std::move(root), "");
}

const nlohmann::json* JsonReader::find_top(std::string_view key) const {
  const auto found = root_.find(key);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json* JsonReader::find(std::string_view key) const {
  if (const nlohmann::json* nested = find_top("text_config");
      nested != nullptr && nested->is_object()) {
    const auto found = nested->find(key);
    if (found != nested->end() && !found->is_null()) return &*found;
  }
  return find_top(key);
}

Result<int64_t> JsonReader::checked(std::string_view key, const nlohmann::json& value,
                                    IntRange range) const {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) &&
                    value.get<int64_t>() >= range.min && value.get<int64_t>() <= range.max;
  if (!fits) {
    return invalid_data(fmt::format("{}{} is {}, but must be a whole number from {} to {}", prefix_,
                                    key, shown(value), range.min, range.max));
  }
  return value.get<int64_t>();
}

Result<int32_t> JsonReader::integer(std::string_view key, IntRange range,
                                    std::optional<int32_t> absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (absent) return *absent;
    return invalid_data(fmt::format("{}{} is missing", prefix_, key));
  }
  HEADRACE_ASSIGN_OR_RETURN(const int64_t number, checked(key, *value, range));
  return static_cast<int32_t>(number);
}

Result<double> JsonReader::number(std::string_view key, double min, double max,
                                  std::optional<double> absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (absent) return *absent;
    return invalid_data(fmt::format("{}{} is missing", prefix_, key));
  }
  if (!value->is_number() || !(value->get<double>() > min && value->get<double>() <= max)) {
    return invalid_data(fmt::format("{}{} is {}, but must be a number above {} and at most {}",
                                    prefix_, key, shown(*value), min, max));
  }
  return value->get<double>();
}

Result<bool> JsonReader::boolean(std::string_view key, bool absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    return invalid_data(
        fmt::format("{}{} is {}, but must be true or false", prefix_, key, shown(*value)));
  }
  return value->get<bool>();
}

Result<std::string> JsonReader::string(std::string_view key, std::string_view absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::string(absent);
  if (!value->is_string()) {
    return invalid_data(
        fmt::format("{}{} is {}, but must be a string", prefix_, key, shown(*value)));
  }
  return value->get<std::string>();
}

Result<std::vector<int64_t>> JsonReader::integers(std::string_view key, IntRange range) const {
  std::vector<int64_t> numbers;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    HEADRACE_ASSIGN_OR_RETURN(const int64_t number, checked(key, *value, range));
    return std::vector<int64_t>{number};
  }
  for (const nlohmann::json& item : *value) {
    HEADRACE_ASSIGN_OR_RETURN(const int64_t number, checked(key, item, range));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace headrace::model
