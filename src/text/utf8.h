// SPDX-License-Identifier: Apache-2.0
// UTF-8 as bytes: decode, check, repair. Knows no character properties (see unicode.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::text {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

struct Utf8Step {
  uint32_t code_point = kReplacementCharacter;
  int num_bytes = 0;  // consumed; 0 only at the end of the text
  // True if the bytes are well-formed. If not, `num_bytes` covers the maximal subpart of an
  // ill-formed sequence: what one U+FFFD stands for in Python, Rust and the WHATWG decoder.
  bool valid = false;
  // The bytes could become well-formed if more followed; only at the end of the text.
  bool incomplete = false;
};

// Reads the code point at `text[offset]`, which may be ill-formed.
Utf8Step read_utf8(std::string_view text, size_t offset);

// Offset of the first ill-formed byte, or npos.
size_t find_invalid_utf8(std::string_view text);

// Code point at `text[offset]` of text that is known to be well-formed; advances `offset`.
inline uint32_t next_code_point(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(offset);
  if (lead < 0x80) {
    offset += 1;
    return lead;
  }
  if (lead < 0xE0) {
    offset += 2;
    return (lead & 0x1F) << 6 | (byte(offset - 1) & 0x3F);
  }
  if (lead < 0xF0) {
    offset += 3;
    return (lead & 0x0F) << 12 | (byte(offset - 2) & 0x3F) << 6 | (byte(offset - 1) & 0x3F);
  }
  offset += 4;
  return (lead & 0x07) << 18 | (byte(offset - 3) & 0x3F) << 12 | (byte(offset - 2) & 0x3F) << 6 |
         (byte(offset - 1) & 0x3F);
}

// Start of the code point that ends before `offset` (> 0) in well-formed text.
inline size_t previous_code_point_start(std::string_view text, size_t offset) {
  do {
    --offset;
  } while ((static_cast<uint8_t>(text[offset]) & 0xC0) == 0x80);
  return offset;
}

void append_utf8(uint32_t code_point, std::string& out);

// Appends `bytes` to `out` with U+FFFD for what is ill-formed. With `keep_incomplete`, an
// unfinished code point at the end is not written; returns the number of bytes consumed.
size_t append_repaired_utf8(std::string_view bytes, bool keep_incomplete, std::string& out);

}  // namespace headrace::text
