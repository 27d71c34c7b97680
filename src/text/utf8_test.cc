// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/scale.h"
#include "text/byte_level.h"

namespace headrace::text {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  EXPECT_EQ(append_repaired_utf8(bytes, false, out), bytes.size());
  return out;
}

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    append_utf8(code_point, text);
    const Utf8Step step = read_utf8(text, 0);
    ASSERT_TRUE(step.valid);
    ASSERT_EQ(step.code_point, code_point);
    ASSERT_EQ(static_cast<size_t>(step.num_bytes), text.size());
    size_t offset = 0;
    ASSERT_EQ(next_code_point(text, offset), code_point);
    ASSERT_EQ(offset, text.size());
    ASSERT_EQ(previous_code_point_start(text, offset), 0u);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Step part = read_utf8(std::string_view(text).substr(0, cut), 0);
      ASSERT_FALSE(part.valid);
      ASSERT_TRUE(part.incomplete);
    }
  }
}

TEST(Utf8, OneReplacementForEachMaximalSubpart) {
  // What Python's bytes.decode("utf-8", "replace") gives.
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a\x80z", "a\uFFFDz"},
      {"\xC3(", "\uFFFD("},
      {"\xC0\xAF", "\uFFFD\uFFFD"},
      {"\xE2\x82", "\uFFFD"},
      {"\xE2\x82\xE2\x82\xAC", "\uFFFD\u20AC"},
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x98", "\uFFFD"},
      {"\xF0\x9F\x98z", "\uFFFDz"},
      {"\xF0\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x8F\xBF", "\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF5\xFF", "\uFFFD\uFFFD"},
      {"", ""},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(repaired(bytes), text);
}

TEST(Utf8, AnIncompleteEndIsKeptOnlyIfItCanStillBecomeWhole) {
  std::string out;
  EXPECT_EQ(append_repaired_utf8("ab\xF0\x9F\x98", true, out), 2u);
  EXPECT_EQ(out, "ab");
  out.clear();
  EXPECT_EQ(append_repaired_utf8("\xED\xA0", true, out), 2u);  // a surrogate never becomes whole
  EXPECT_EQ(out, "\uFFFD\uFFFD");
  out.clear();
  EXPECT_EQ(append_repaired_utf8("\xF0\x9F\x98"
                                 "a",
                                 true, out),
            4u);
  EXPECT_EQ(out, "\uFFFDa");
}

TEST(Utf8, RandomBytesBecomeValidAndValidTextStays) {
  std::mt19937 random(4);
  const std::string alphabet("\0\x7F\x80\xBF\xC2\xE0\xED\xEF\xF0\xF4\xFFz\x9F\xA0\x90\x8F", 16);
  for (int i = 0; i < test::scaled(100'000); ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = alphabet[random() % alphabet.size()];
    const std::string text = repaired(bytes);
    ASSERT_EQ(find_invalid_utf8(text), std::string_view::npos);
    ASSERT_EQ(repaired(text), text);
    const size_t invalid = find_invalid_utf8(bytes);
    ASSERT_EQ(invalid == std::string_view::npos, text == bytes);
    if (invalid != std::string_view::npos) {
      ASSERT_EQ(find_invalid_utf8(std::string_view(bytes).substr(0, invalid)),
                std::string_view::npos);
    }
  }
}

TEST(Utf8, TheFirstInvalidByteIsFoundAtEveryOffset) {
  for (size_t size = 0; size < 40; ++size) {
    std::string text(size, 'a');
    EXPECT_EQ(find_invalid_utf8(text), std::string_view::npos);
    for (size_t at = 0; at < size; ++at) {
      std::string broken = text;
      broken[at] = '\xFF';
      EXPECT_EQ(find_invalid_utf8(broken), at);
    }
  }
}

TEST(ByteLevel, EveryByteHasACharacterOfItsOwn) {
  std::string bytes;
  std::string chars;
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    bytes.push_back(static_cast<char>(value));
    chars += byte_to_char(value);
    EXPECT_EQ(spelled_bytes(byte_to_char(value)), std::string(1, static_cast<char>(value)));
  }
  EXPECT_EQ(spelled_bytes(chars), bytes);
  std::string spelled;
  append_byte_chars(bytes, spelled);
  EXPECT_EQ(spelled, chars);
  EXPECT_EQ(byte_to_char(' '), "\u0120");
  EXPECT_EQ(byte_to_char('\n'), "\u010A");
  EXPECT_EQ(byte_to_char('a'), "a");
  EXPECT_EQ(byte_to_char(0xFF), "\u00FF");
  EXPECT_EQ(byte_to_char(0xAD), "\u0143");  // the last of the shifted ones
  // A character outside the alphabet: the token stands for itself.
  EXPECT_EQ(spelled_bytes("\u0120\u6BD5"), "\u0120\u6BD5");
  EXPECT_EQ(spelled_bytes("a b"), "a b");
}

}  // namespace
}  // namespace headrace::text
