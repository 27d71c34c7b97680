// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace headrace::cli {
namespace {

template <typename T>
std::errc parse_whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop != end) return std::errc::invalid_argument;
  return error;
}

}  // namespace

Result<int32_t> parse_int32(std::string_view text, int32_t min, int32_t max) {
  int64_t value = 0;
  const std::errc error = parse_whole(text, value);
  if (error == std::errc::invalid_argument) {
    return invalid_argument(fmt::format("'{}' is not a whole number", text));
  }
  if (error != std::errc() || value < min || value > max) {
    return invalid_argument(
        fmt::format("{} is out of range: give a whole number from {} to {}", text, min, max));
  }
  return static_cast<int32_t>(value);
}

Result<uint64_t> parse_uint64(std::string_view text) {
  uint64_t value = 0;
  const std::errc error = parse_whole(text, value);
  if (error != std::errc()) {
    return invalid_argument(
        fmt::format("'{}' is not a whole number from 0 to {}", text, UINT64_MAX));
  }
  return value;
}

Result<float> parse_float(std::string_view text) {
  float value = 0;
  const std::errc error = parse_whole(text, value);
  if (error == std::errc::result_out_of_range || (error == std::errc() && !std::isfinite(value))) {
    return invalid_argument(fmt::format("{} is not a number that a float can hold", text));
  }
  if (error != std::errc()) {
    const bool comma = text.find(',') != std::string_view::npos;
    return invalid_argument(
        fmt::format("'{}' is not a number{}", text,
                    comma ? "; the decimal sign is a point in every locale, as in 0.5" : ""));
  }
  return value;
}

Result<bool> parse_switch(std::string_view text) {
  for (std::string_view word : {"true", "1", "yes", "on"}) {
    if (text == word) return true;
  }
  for (std::string_view word : {"false", "0", "no", "off"}) {
    if (text == word) return false;
  }
  return invalid_argument(fmt::format("'{}' is neither true nor false", text));
}

}  // namespace headrace::cli
