// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace headrace::text {
namespace {

AddedToken token(std::string content, int32_t id, std::string_view flags = "") {
  AddedToken result;
  result.content = std::move(content);
  result.id = id;
  result.single_word = flags.find('w') != flags.npos;
  result.lstrip = flags.find('l') != flags.npos;
  result.rstrip = flags.find('r') != flags.npos;
  result.special = flags.find('s') != flags.npos;
  return result;
}

// "text<7>text": tokens by id between the pieces of text, which are separated by "|".
std::string split(const std::vector<AddedToken>& tokens, std::string_view text,
                  bool skip_special = false) {
  std::vector<Segment> segments;
  AddedTokenMatcher(tokens).split(text, skip_special, segments);
  std::string out;
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      out += "<" + std::to_string(segment.id) + ">";
      EXPECT_TRUE(segment.text.empty());
    } else {
      EXPECT_FALSE(segment.text.empty());
      if (!out.empty() && out.back() != '>') out += "|";
      out += segment.text;
    }
  }
  return out;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const std::vector<AddedToken> tokens = {token("ab", 1), token("abc", 2), token("bcd", 3),
                                          token("abcde", 4)};
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split(tokens, "xyz"), "xyz");
  EXPECT_EQ(split(tokens, "abcd"), "<2>d");
  EXPECT_EQ(split(tokens, "abcde"), "<4>");
  EXPECT_EQ(split(tokens, "xbcdab"), "x<3><1>");
  EXPECT_EQ(split(tokens, "aabb"), "a<1>b");
  EXPECT_EQ(split({}, "ab"), "ab");
  EXPECT_EQ(split({token("", 1)}, "ab"), "ab");
  EXPECT_EQ(split({token("a", 1), token("a", 2)}, "a"), "<1>");
}

TEST(AddedTokens, SpacesAreTaken) {
  EXPECT_EQ(split({token("[x]", 1, "l")}, "a \t\u3000[x] b"), "a<1> b");
  EXPECT_EQ(split({token("[x]", 1, "r")}, "a [x] \n\u00A0b"), "a <1>b");
  EXPECT_EQ(split({token("[x]", 1, "lr")}, "  [x]  [x]  "), "<1><1>");
  EXPECT_EQ(split({token("[x]", 1)}, " [x] "), " <1> ");
}

TEST(AddedTokens, TokensInSpacesThatWereTaken) {
  const AddedToken right = token("[x]", 1, "r");
  // As Hugging Face's tokenizers do it: a token in the spaces still counts, and the spaces after it
  // are text again;
  EXPECT_EQ(split({right, token("  ", 2)}, "[x]   y"), "<1><2> y");
  EXPECT_EQ(split({right, token(" the", 2)}, "[x] the"), "<1><2>");
  // but one that takes spaces from the left has nothing left.
  EXPECT_EQ(split({right, token("  ", 2, "l")}, "[x]   y"), "<1> y");
  EXPECT_EQ(split({token("  ", 2, "lr")}, "     "), "<2>");
}

TEST(AddedTokens, SingleWordsTouchNoWord) {
  const std::vector<AddedToken> tokens = {token("is", 1, "w")};
  EXPECT_EQ(split(tokens, "is this is"), "<1> this <1>");
  EXPECT_EQ(split(tokens, "is_ is\u0301 \u24D0is is-is"), "is_ is\u0301 \u24D0is <1>-<1>");
  // What is refused is used up all the same: "sx" is not looked for inside of it.
  EXPECT_EQ(split({token("is", 1, "w"), token("sx", 2)}, "isx"), "isx");
}

TEST(AddedTokens, SpecialOnesCanBeLeftInTheText) {
  const std::vector<AddedToken> tokens = {token("<s>", 1, "s"), token("<n>", 2)};
  EXPECT_EQ(split(tokens, "a<s><n>"), "a<1><2>");
  EXPECT_EQ(split(tokens, "a<s><n>", true), "a<s><2>");
}

}  // namespace
}  // namespace headrace::text
