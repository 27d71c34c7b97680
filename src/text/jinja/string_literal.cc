// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/string_literal.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

std::optional<char> simple_escape(char c) {
  constexpr std::string_view kNames = "\\'\"abfnrtv";
  constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
  const size_t index = kNames.find(c);
  if (index == std::string_view::npos) return std::nullopt;
  return kValues[index];
}

size_t num_hex_digits(char kind) { return kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0; }

// \xhh, \uhhhh, \Uhhhhhhhh: `digits` starts after the letter.
Status append_hex(char kind, std::string_view digits, std::string& out) {
  digits = digits.substr(0, num_hex_digits(kind));
  uint32_t code_point = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code_point, 16);
  if (digits.size() != num_hex_digits(kind) || error != std::errc() ||
      end != digits.data() + digits.size()) {
    return invalid_data(
        fmt::format("\"\\{}\" wants {} hexadecimal digits", kind, num_hex_digits(kind)));
  }
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
    return unsupported(fmt::format("\"\\{}{}\" is no character", kind, digits));
  }
  append_utf8(code_point, out);
  return {};
}

}  // namespace

Result<std::string> unescape(std::string_view literal) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out.push_back(literal[i]);
      continue;
    }
    const char kind = literal[++i];
    if (const auto simple = simple_escape(kind)) {
      out.push_back(*simple);
    } else if (num_hex_digits(kind) > 0) {
      HEADRACE_RETURN_IF_ERROR(append_hex(kind, literal.substr(i + 1), out));
      i += num_hex_digits(kind);
    } else if (kind >= '0' && kind <= '7') {
      uint32_t code_point = 0;
      size_t end = i;
      while (end < literal.size() && end < i + 3 && literal[end] >= '0' && literal[end] <= '7') {
        code_point = code_point * 8 + static_cast<uint32_t>(literal[end++] - '0');
      }
      append_utf8(code_point, out);
      i = end - 1;
    } else if (kind == 'N') {
      return unsupported("\"\\N{...}\" in a string is not supported");
    } else if (kind != '\n') {  // an escaped line end leaves nothing
      out.push_back('\\');
      out.push_back(kind);
    }
  }
  return out;
}

}  // namespace headrace::text::jinja
