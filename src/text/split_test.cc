// SPDX-License-Identifier: Apache-2.0
// Splitters: the hand-written patterns against PCRE2 with the same pattern, what each split rule
// makes of matches, and the dialect of the general engine.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcre2.h>

#include <array>
#include <random>

#include "tests/support/scale.h"
#include "text/pre_tokenizer.h"
#include "text/splitter.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> split(const Splitter& splitter, std::string_view text) {
  Pieces parts;
  const Status status = splitter.split(text, parts);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::string> kept;
  for (const std::string_view part : parts) {
    if (!part.empty()) kept.emplace_back(part);
  }
  return kept;
}

std::vector<std::string> split(std::string_view pattern, std::string_view text,
                               SplitRule rule = {}) {
  auto splitter = make_general_regex_splitter(pattern, rule);
  EXPECT_TRUE(splitter.ok()) << splitter.status().message();
  return splitter.ok() ? split(**splitter, text) : std::vector<std::string>{};
}

// Code points that PCRE2 10.42 knows (Unicode 14): later ones have another class there.
bool known_to_pcre2(uint32_t code_point) {
  static pcre2_code* code = [] {
    int error = 0;
    PCRE2_SIZE offset = 0;
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>("^\\p{Cn}"), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  }();
  static pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  std::string text;
  append_utf8(code_point, text);
  return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data,
                     nullptr) < 0;
}

class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {
    for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
      if (code_point >= 0xD800 && code_point < 0xE000) continue;
      const CharClass char_class = classify(code_point);
      // Of the unassigned code points a few are enough.
      if (char_class == CharClass::kOther && code_point % 64 != 0 && code_point > 0x3000) continue;
      if (known_to_pcre2(code_point))
        by_class_[static_cast<size_t>(char_class)].push_back(code_point);
    }
  }

  std::string next() {
    static constexpr std::string_view kPieces[] = {
        "'s",   "'S",  "'\u017F", "'re",     "'rE",    "'VE",    "'ll",    "'lL",    "'m",
        "'d",   "'t",  "'T",      "'",       "' ",     " ",      "  ",     "\n",     "\r",
        "\r\n", "\t",  "\u00A0",  "\u0085",  "a",      "B",      "1",      "12",     "123456",
        "!",    "...", "\u0301",  "e\u0301", "\u180E", "\u200B", "\u3000", "\u2028", "\x1C",
        "\x0B", "l",   "s",       "v",       "\0"};
    std::string text;
    const int count = static_cast<int>(random_() % 16);
    for (int i = 0; i < count; ++i) {
      if (random_() % 3 != 0) {
        text += kPieces[random_() % std::size(kPieces)];
      } else {
        const auto& code_points = by_class_[random_() % by_class_.size()];
        append_utf8(code_points[random_() % code_points.size()], text);
      }
    }
    return text;
  }

 private:
  std::mt19937 random_;
  std::array<std::vector<uint32_t>, 6> by_class_;
};

TEST(SplitPatterns, HandWrittenEqualsPcre2) {
  RandomText texts(5);
  const std::string_view patterns[] = {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kQwen35Pattern};
  std::vector<std::unique_ptr<const Splitter>> general;
  for (const std::string_view pattern : patterns) {
    auto splitter = make_general_regex_splitter(pattern, {});
    ASSERT_TRUE(splitter.ok()) << splitter.status().message();
    general.push_back(std::move(splitter).value());
  }
  for (int i = 0; i < test::scaled(120'000); ++i) {
    const std::string text = texts.next();
    for (size_t p = 0; p < std::size(patterns); ++p) {
      Pieces expected;
      Pieces found;
      ASSERT_TRUE(general[p]->split(text, expected).ok());
      find_split_function(patterns[p])(text, found);
      ASSERT_EQ(found, expected) << "pattern " << p << ", text " << ::testing::PrintToString(text);
    }
  }
}

TEST(SplitPatterns, WordsAreWhatThePatternsAreKnownFor) {
  const auto words = [](std::string_view pattern, std::string_view text) {
    Pieces pieces;
    find_split_function(pattern)(text, pieces);
    return std::vector<std::string>(pieces.begin(), pieces.end());
  };
  EXPECT_THAT(words(kGpt2Pattern, "I'm here's  12345 \n\n x"),
              ElementsAre("I", "'m", " here", "'s", " ", " 12345", " \n\n", " x"));
  EXPECT_THAT(words(kGpt2Pattern, "I'M"), ElementsAre("I", "'", "M"));
  EXPECT_THAT(words(kLlama3Pattern, "I'M 12345 \n\n x!\n"),
              ElementsAre("I", "'M", " ", "123", "45", " \n\n", " x", "!\n"));
  EXPECT_THAT(words(kQwen2Pattern, "x\u0301y 123"),
              ElementsAre("x", "\u0301y", " ", "1", "2", "3"));
  EXPECT_THAT(words(kQwen35Pattern, "x\u0301y 123"), ElementsAre("x\u0301y", " ", "1", "2", "3"));
  EXPECT_THAT(words(kQwen35Pattern, "'\u017F"), ElementsAre("'\u017F"));
  EXPECT_THAT(words(kQwen2Pattern, ""), ElementsAre());
  EXPECT_EQ(find_split_function("\\s+"), nullptr);
}

TEST(SplitRule, WhatBecomesOfMatches) {
  using enum SplitBehavior;
  struct Case {
    std::string_view pattern;
    SplitBehavior behavior;
    bool invert;
    std::vector<std::string> parts;
  };
  // Made with the Split pre-tokenizer of tokenizers 0.23.3.
  const std::vector<Case> cases = {
      {R"(\s)", kIsolated, false, {" ", " ", "abab", " ", "c", " ", "b", " "}},
      {R"(\s)", kRemoved, false, {"abab", "c", "b"}},
      {R"(\s)", kRemoved, true, {" ", " ", " ", " ", " "}},
      {R"(\s)", kMergedWithPrevious, false, {" ", " ", "abab ", "c ", "b "}},
      {R"(\s)", kMergedWithPrevious, true, {" ", " abab", " c", " b", " "}},
      {R"(\s)", kMergedWithNext, false, {" ", " abab", " c", " b", " "}},
      {R"(\s)", kMergedWithNext, true, {" ", " ", "abab ", "c ", "b "}},
      {R"(\s)", kContiguous, false, {"  ", "abab", " ", "c", " ", "b", " "}},
      {R"(ab)", kIsolated, true, {"  ", "ab", "ab", " c b "}},
      {R"(ab)", kRemoved, false, {"  ", " c b "}},
      {R"(ab)", kRemoved, true, {"ab", "ab"}},
      {R"(ab)", kMergedWithPrevious, false, {"  ab", "ab", " c b "}},
      {R"(ab)", kMergedWithPrevious, true, {"  ", "ab", "ab c b "}},
      {R"(ab)", kMergedWithNext, false, {"  ", "ab", "ab c b "}},
      {R"(ab)", kMergedWithNext, true, {"  ab", "ab", " c b "}},
      {R"(ab)", kContiguous, false, {"  ", "abab", " c b "}},
      {R"(\s|(?=b))", kIsolated, false, {" ", " ", "a", "ba", "b", " ", "c", " ", "b", " "}},
      {R"(\s|(?=b))", kRemoved, false, {"a", "ba", "b", "c", "b"}},
      {R"(\s|(?=b))", kMergedWithPrevious, false, {" ", " ", "a", "ba", "b ", "c ", "b "}},
      {R"(\s|(?=b))", kMergedWithPrevious, true, {" ", " a", "ba", "b", " c", " b", " "}},
      {R"(\s|(?=b))", kMergedWithNext, false, {" ", " a", "ba", "b", " c", " b", " "}},
      {R"(\s|(?=b))", kContiguous, false, {"  ", "a", "ba", "b", " ", "c", " ", "b", " "}},
  };
  for (const Case& item : cases) {
    EXPECT_EQ(split(item.pattern, "  abab c b ", {item.behavior, item.invert}), item.parts)
        << item.pattern << " " << static_cast<int>(item.behavior) << " " << item.invert;
  }
  EXPECT_THAT(split(*make_literal_splitter("ab", {kMergedWithNext, false}), "  abab c b "),
              ElementsAre("  ", "ab", "ab c b "));
  EXPECT_THAT(split(*make_digit_splitter({}), "a12\u00BDb3"),
              ElementsAre("a", "1", "2", "\u00BD", "b", "3"));
  EXPECT_THAT(split(*make_digit_splitter({kContiguous, false}), "a12\u00BDb3"),
              ElementsAre("a", "12\u00BD", "b", "3"));
}

TEST(SplitRule, KnownPatternsUnderEveryRule) {
  for (int behavior = 0; behavior < 5; ++behavior) {
    for (const bool invert : {false, true}) {
      const SplitRule rule{static_cast<SplitBehavior>(behavior), invert};
      const auto chosen = make_regex_splitter(kQwen35Pattern, rule);
      const auto general = make_general_regex_splitter(kQwen35Pattern, rule);
      ASSERT_TRUE(chosen.ok() && general.ok());
      RandomText texts(6);
      for (int i = 0; i < test::scaled(500); ++i) {
        const std::string text = texts.next();
        ASSERT_EQ(split(**chosen, text), split(**general, text)) << behavior << invert;
      }
    }
  }
}

TEST(RegexDialect, MeansWhatOnigurumaMeans) {
  // Made with tokenizers 0.23.3.
  EXPECT_THAT(split(R"(\p{N}{1,3}+)", "12345a1"), ElementsAre("12345", "a", "1"));
  EXPECT_THAT(split(R"((?:\p{N}a){1}+)", "1a2a!"), ElementsAre("1a2a", "!"));
  EXPECT_THAT(split(R"(\p{N}++)", "12345a1"), ElementsAre("12345", "a", "1"));
  EXPECT_THAT(split(R"(a{,2})", "aaab", {SplitBehavior::kRemoved, false}), ElementsAre("b"));
  EXPECT_THAT(split(R"(\h)", "ag1"), ElementsAre("a", "g", "1"));
  EXPECT_THAT(split(R"([\u0041-\u0043])", "aAb"), ElementsAre("a", "A", "b"));
  EXPECT_THAT(split(R"(^b)", "a\nb"), ElementsAre("a\n", "b"));
  EXPECT_THAT(split(R"(a$)", "a\nb"), ElementsAre("a", "\nb"));
  EXPECT_THAT(split(R"(.)", "a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(split(R"((?<=a))", "aabab"), ElementsAre("a", "a", "ba", "b"));
  EXPECT_THAT(split(R"((?=b)|b)", "aabab"), ElementsAre("aa", "ba", "b"));
  EXPECT_THAT(split(R"(x*)", "aabab"), ElementsAre("a", "a", "b", "a", "b"));
  EXPECT_THAT(split(R"([^\S\n])", "a \nb"), ElementsAre("a", " ", "\nb"));
  EXPECT_THAT(split(R"(\p{^L})", "a1"), ElementsAre("a", "1"));
  EXPECT_THAT(split(R"(\bab\b)", "ab ab cab"), ElementsAre("ab", " ", "ab", " cab"));
  EXPECT_THAT(split(R"([\w])", "e\u0301_\u200C\u00B2\u2167\u24D0"),
              ElementsAre("e", "\u0301", "_", "\u200C\u00B2", "\u2167", "\u24D0"));
  EXPECT_THAT(split(R"(\w+)", "e\u0301x\u00B2"), ElementsAre("e\u0301x", "\u00B2"));
  EXPECT_THAT(split(R"(\d)", "1\u00B2\u096B"), ElementsAre("1", "\u00B2", "\u096B"));
  EXPECT_THAT(split(R"(a{|b)", "a{b"), ElementsAre("a{", "b"));
  EXPECT_THAT(split(R"([[:alpha:]])", "a1\u00E9"), ElementsAre("a", "1", "\u00E9"));
  // U+180E is no white space, whatever PCRE2 takes it for; U+0085 is.
  EXPECT_THAT(split(R"(\s+)", "a\u180Eb\u0085 c"), ElementsAre("a\u180Eb", "\u0085 ", "c"));
  EXPECT_THAT(split(R"([^\s]+)", "a\u180Eb\u0085 c"), ElementsAre("a\u180Eb", "\u0085 ", "c"));
  EXPECT_THAT(split(R"(\S+)", "a\u180Eb\u0085 c"), ElementsAre("a\u180Eb", "\u0085 ", "c"));
}

TEST(RegexDialect, WhiteSpaceInAndOutOfBracketsIsTheProperty) {
  for (const char* pattern : {R"(\s)", R"([\s])", R"([^\S])"}) {
    auto splitter = make_general_regex_splitter(pattern, {SplitBehavior::kRemoved, false});
    ASSERT_TRUE(splitter.ok()) << splitter.status().message();
    for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
      if (code_point >= 0xD800 && code_point < 0xE000) continue;
      if (code_point > 0x3100 && code_point % 97 != 0) continue;
      std::string text;
      append_utf8(code_point, text);
      Pieces parts;
      ASSERT_TRUE((*splitter)->split(text, parts).ok());
      ASSERT_EQ(parts.empty(), is_space(code_point)) << pattern << " " << std::hex << code_point;
    }
  }
}

TEST(RegexDialect, RefusesWhatItCannotSay) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[a-z&&[^b]]", "&&"},
      {"[a[bc]]", "a set inside a set"},
      {"[\\W]", "\\W in brackets"},
      {"[]a]", "\"]\" as the first"},
      {"(?m).", "(?m)"},
      {"(?x) a", "(?x)"},
      {"(?<n>a)\\k<n>", "(?<n"},
      {"\\Ka", "\\K"},
      {"\\Qa", "\\Q"},
      {"\\X", "\\X"},
      {"\\u12", "\\u"},
      {"a\\", "a backslash"},
      {"\\pL", "\\p without"},
      {"(a", "missing"},
      {"\\p{Nonsense}", "unknown"},
      {"a**?+{2,1}", "quantifier"},
      {"[a", "missing"},
  };
  for (const auto& [pattern, text] : cases) {
    const auto splitter = make_general_regex_splitter(pattern, {});
    ASSERT_FALSE(splitter.ok()) << pattern;
    EXPECT_EQ(splitter.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(splitter.status().message(), HasSubstr(text)) << pattern;
    EXPECT_THAT(splitter.status().message(), HasSubstr("pattern"));
  }
}

TEST(RegexSplitter, GivesUpOnPatternsThatNeverEnd) {
  auto splitter = make_general_regex_splitter("(a+)+$|(a|aa)+b", {});
  ASSERT_TRUE(splitter.ok()) << splitter.status().message();
  Pieces parts;
  const Status status = (*splitter)->split(std::string(60, 'a') + "c", parts);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("match limit"));
}

TEST(RegexSplitter, LongTextNeedsNoStack) {
  // A group in a loop uses JIT stack for every round; the interpreter takes over.
  EXPECT_EQ(split("(?:(a)|b)+", std::string(1 << 17, 'a')).size(), 1u);
  EXPECT_EQ(split(kQwen35Pattern, std::string(1 << 20, 'a')).size(), 1u);
  EXPECT_EQ(split(kQwen35Pattern, std::string(1 << 20, ' ') + "a").size(), 2u);
}

TEST(PreTokenizer, ByteLevelStepsComeLast) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add_splitter(make_digit_splitter({}));
  pre_tokenizer.set_add_prefix_space(true);
  pre_tokenizer.set_gpt2_split(true);
  Words words;
  ASSERT_TRUE(pre_tokenizer.split("ab 12 cd's", words).ok());
  EXPECT_THAT(std::vector<std::string>(words.pieces.begin(), words.pieces.end()),
              ElementsAre(" ab", " ", " 1", " 2", " cd", "'s"));
  ASSERT_TRUE(pre_tokenizer.split("", words).ok());
  EXPECT_TRUE(words.pieces.empty());
}

}  // namespace
}  // namespace headrace::text
