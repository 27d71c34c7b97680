// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <cstring>

namespace headrace::text {

Utf8Step read_utf8(std::string_view text, size_t offset) {
  Utf8Step step;
  if (offset >= text.size()) return step;
  const auto lead = static_cast<uint8_t>(text[offset]);
  step.num_bytes = 1;
  if (lead < 0x80) {
    step.code_point = lead;
    step.valid = true;
    return step;
  }
  // The second byte has a narrower range after some leads: no overlong forms, no surrogates,
  // nothing above U+10FFFF.
  int length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  uint32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return step;
  }
  for (int i = 1; i < length; ++i) {
    if (offset + static_cast<size_t>(i) >= text.size()) {
      step.incomplete = true;
      return step;
    }
    const auto byte = static_cast<uint8_t>(text[offset + static_cast<size_t>(i)]);
    if (byte < low || byte > high) return step;
    low = 0x80;
    high = 0xBF;
    value = value << 6 | (byte & 0x3F);
    step.num_bytes = i + 1;
  }
  step.code_point = value;
  step.valid = true;
  return step;
}

size_t find_invalid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (i + 8 <= text.size()) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const Utf8Step step = read_utf8(text, i);
    if (!step.valid) return i;
    i += static_cast<size_t>(step.num_bytes);
  }
  return std::string_view::npos;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t append_repaired_utf8(std::string_view bytes, bool keep_incomplete, std::string& out) {
  size_t copied = 0;  // everything before it is in `out`
  size_t i = 0;
  while (i < bytes.size()) {
    const Utf8Step step = read_utf8(bytes, i);
    if (!step.valid) {
      out.append(bytes.substr(copied, i - copied));
      if (step.incomplete && keep_incomplete) return i;
      append_utf8(kReplacementCharacter, out);
      copied = i + static_cast<size_t>(step.num_bytes);
    }
    i += static_cast<size_t>(step.num_bytes);
  }
  out.append(bytes.substr(copied));
  return bytes.size();
}

}  // namespace headrace::text
