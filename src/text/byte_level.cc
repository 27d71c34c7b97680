// SPDX-License-Identifier: Apache-2.0
#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace headrace::text {
namespace {

constexpr uint32_t kFirstShifted = 0x100;
constexpr int kNumShifted = 68;  // bytes that are no printable Latin-1 character

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> chars;
  std::array<int16_t, kFirstShifted + kNumShifted> bytes;  // by code point, −1: not in the alphabet

  Alphabet() {
    bytes.fill(-1);
    uint32_t shifted = kFirstShifted;
    for (int byte = 0; byte < 256; ++byte) {
      const uint32_t code_point = is_printable(byte) ? static_cast<uint32_t>(byte) : shifted++;
      append_utf8(code_point, chars[static_cast<size_t>(byte)]);
      bytes[code_point] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string_view byte_to_char(uint8_t byte) { return alphabet().chars[byte]; }

void append_byte_chars(std::string_view bytes, std::string& out) {
  for (const char c : bytes) out.append(byte_to_char(static_cast<uint8_t>(c)));
}

std::string spelled_bytes(std::string_view token) {
  const Alphabet& letters = alphabet();
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size();) {
    const uint32_t code_point = next_code_point(token, i);
    if (code_point >= letters.bytes.size() || letters.bytes[code_point] < 0) {
      return std::string(token);
    }
    bytes.push_back(static_cast<char>(letters.bytes[code_point]));
  }
  return bytes;
}

}  // namespace headrace::text
