// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <map>

namespace headrace::text {
namespace {

TEST(Unicode, ClassesHaveTheSizesOfUnicode16) {
  // Counted with the regular expression engine of Hugging Face's tokenizers (Unicode 16).
  std::map<CharClass, int> counts;
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) ++counts[classify(code_point)];
  EXPECT_EQ(counts[CharClass::kLetter], 141'028);
  EXPECT_EQ(counts[CharClass::kMark], 2'501);
  EXPECT_EQ(counts[CharClass::kNumber], 1'911);
  EXPECT_EQ(counts[CharClass::kSpace], 23);
  EXPECT_EQ(counts[CharClass::kNewline], 2);
}

TEST(Unicode, WhiteSpaceIsTheProperty) {
  for (const uint32_t space : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000,
                               0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}) {
    EXPECT_TRUE(is_space(space)) << std::hex << space;
  }
  for (const uint32_t other : {0x08, 0x0E, 0x1C, 0x1F, 0x84, 0x180E, 0x200B, 0x2060, 0xFEFF}) {
    EXPECT_FALSE(is_space(other)) << std::hex << other;
  }
}

TEST(Unicode, ClassesOfCharactersThatAreEasilyMistaken) {
  EXPECT_EQ(classify(0x00AA), CharClass::kLetter);   // ª
  EXPECT_EQ(classify(0x02B0), CharClass::kLetter);   // modifier letter
  EXPECT_EQ(classify(0x0301), CharClass::kMark);     // combining acute
  EXPECT_EQ(classify(0x0E33), CharClass::kLetter);   // Thai sara am
  EXPECT_EQ(classify(0x00B2), CharClass::kNumber);   // ²
  EXPECT_EQ(classify(0x2167), CharClass::kNumber);   // Ⅷ
  EXPECT_EQ(classify(0x0967), CharClass::kNumber);   // Devanagari one
  EXPECT_EQ(classify(0x4E00), CharClass::kLetter);   // 一, not a number
  EXPECT_EQ(classify(0x24D0), CharClass::kOther);    // ⓐ is a symbol
  EXPECT_EQ(classify(0x200D), CharClass::kOther);    // joiner
  EXPECT_EQ(classify(0x2EBF0), CharClass::kLetter);  // first and last of Extension I (15.1),
  EXPECT_EQ(classify(0x2EE5D), CharClass::kLetter);
  EXPECT_EQ(classify(0x2EBEF), CharClass::kOther);  // and what is next to them
  EXPECT_EQ(classify(0x2EE5E), CharClass::kOther);
  EXPECT_EQ(classify(0x0897), CharClass::kMark);  // first of the additions
  EXPECT_EQ(classify(0x10FFFF), CharClass::kOther);
}

TEST(Unicode, WordCharacters) {
  for (const uint32_t word : {0x61u, 0x5Au, 0x30u, 0x5Fu, 0xE9u, 0x301u, 0x2167u, 0x200Cu, 0x200Du,
                              0x203Fu, 0x24D0u, 0x1F149u, 0x4E00u}) {
    EXPECT_TRUE(is_word(word)) << std::hex << word;
  }
  for (const uint32_t other :
       {0x20u, 0x0Au, 0x2Du, 0xB2u, 0xBDu, 0x2014u, 0x1F600u, 0x24EAu, 0x200Bu}) {
    EXPECT_FALSE(is_word(other)) << std::hex << other;
  }
}

TEST(Unicode, CanonicalComposition) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"e\u0301", "\u00E9"},
      {"\u00E9", "\u00E9"},
      {"A\u030A", "\u00C5"},
      {"\u212B", "\u00C5"},                // the Ångström sign
      {"\uAC00\u11A8", "\uAC01"},          // Hangul
      {"q\u0307\u0323", "q\u0323\u0307"},  // reordered, nothing to compose
      {"\u1E9B\u0323", "\u1E9B\u0323"},    // compatibility characters stay
      {"\uFB01", "\uFB01"},
      {"\u0958", "\u0915\u093C"},  // excluded from composition
      {"a\u0301<|x|>e\u0301", "\u00E1<|x|>\u00E9"},
  };
  for (const auto& [text, normalized] : cases) {
    const auto result = normalize_nfc(text);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(*result, normalized);
    EXPECT_EQ(*normalize_nfc(*result), *result);
  }
  const std::string with_zero("e\u0301\0e\u0301", 7);
  EXPECT_EQ(*normalize_nfc(with_zero), std::string("\u00E9\0\u00E9", 5));
}

}  // namespace
}  // namespace headrace::text
