// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/whitespace.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

// Python also takes the four ASCII separators for white space.
bool is_python_space(uint32_t code_point) {
  return is_space(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

}  // namespace

std::string_view strip_left(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t next = begin;
    if (!is_python_space(next_code_point(text, next))) break;
    begin = next;
  }
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const size_t last = previous_code_point_start(text, text.size());
    size_t cursor = last;
    if (!is_python_space(next_code_point(text, cursor))) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace headrace::text::jinja
