// SPDX-License-Identifier: Apache-2.0
// Values of config.json, looked up by key, checked for type and range. The text part of a
// multimodal config lies in "text_config"; its keys come before those of the top level. Knows
// nothing of what the values are for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.h"

namespace headrace::model {

struct IntRange {
  int64_t min = 0;
  int64_t max = 0;
};

class JsonReader {
 public:
  // `text` must be a JSON object.
  static Result<JsonReader> parse(const std::string& text);
  // Over one object alone; `prefix` goes before the keys in messages.
  JsonReader(nlohmann::json object, std::string prefix)
      : root_(std::move(object)), prefix_(std::move(prefix)) {}

  // Null if the key is absent or null.
  const nlohmann::json* find(std::string_view key) const;
  // The same without looking into "text_config".
  const nlohmann::json* find_top(std::string_view key) const;

  // Each names the key, what it is and what it may be. Absent: the default, or an error without.
  Result<int32_t> integer(std::string_view key, IntRange range,
                          std::optional<int32_t> absent = std::nullopt) const;
  // Open at the bottom: min < value <= max.
  Result<double> number(std::string_view key, double min, double max,
                        std::optional<double> absent = std::nullopt) const;
  Result<bool> boolean(std::string_view key, bool absent) const;
  Result<std::string> string(std::string_view key, std::string_view absent) const;
  // A number or a list of numbers; empty if absent.
  Result<std::vector<int64_t>> integers(std::string_view key, IntRange range) const;

 private:
  Result<int64_t> checked(std::string_view key, const nlohmann::json& value, IntRange range) const;

  nlohmann::json root_;
  std::string prefix_;
};

// How a value is shown in a message: at most a line.
std::string shown(const nlohmann::json& value);

}  // namespace headrace::model
