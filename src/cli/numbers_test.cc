// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locale>

namespace headrace::cli {
namespace {

using ::testing::HasSubstr;

TEST(ParseInt32, TakesWholeNumbersInRange) {
  EXPECT_EQ(*parse_int32("0", 0, 10), 0);
  EXPECT_EQ(*parse_int32("10", 0, 10), 10);
  EXPECT_EQ(*parse_int32("-3", -5, 5), -3);
  EXPECT_EQ(*parse_int32("2147483647", 0, INT32_MAX), INT32_MAX);
}

TEST(ParseInt32, RefusesTheRest) {
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "ten", "1,000", "-"}) {
    EXPECT_THAT(parse_int32(text, 0, INT32_MAX).status().message(), HasSubstr("not a whole number"))
        << text;
  }
  for (const char* text : {"-1", "11", "2147483648", "99999999999999999999"}) {
    EXPECT_THAT(parse_int32(text, 0, 10).status().message(), HasSubstr("from 0 to 10")) << text;
  }
}

TEST(ParseUint64, CoversTheWholeRange) {
  EXPECT_EQ(*parse_uint64("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"18446744073709551616", "-1", "", "1.5"}) {
    EXPECT_FALSE(parse_uint64(text).ok()) << text;
  }
}

TEST(ParseFloat, TakesPlainAndScientific) {
  EXPECT_EQ(*parse_float("0"), 0.0f);
  EXPECT_EQ(*parse_float("0.7"), 0.7f);
  EXPECT_EQ(*parse_float(".5"), 0.5f);
  EXPECT_EQ(*parse_float("1e-3"), 1e-3f);
  EXPECT_EQ(*parse_float("-2"), -2.0f);
}

TEST(ParseFloat, RefusesTheRest) {
  EXPECT_THAT(parse_float("0,5").status().message(), HasSubstr("point"));
  for (const char* text : {"", "0.5x", "half", "+1", " 1", "nan", "inf", "1e99"}) {
    EXPECT_FALSE(parse_float(text).ok()) << text;
  }
}

TEST(ParseSwitch, KnowsBothSides) {
  for (const char* text : {"true", "1", "yes", "on"}) EXPECT_TRUE(*parse_switch(text)) << text;
  for (const char* text : {"false", "0", "no", "off"}) EXPECT_FALSE(*parse_switch(text)) << text;
  for (const char* text : {"", "TRUE", "2", "maybe"}) EXPECT_FALSE(parse_switch(text).ok()) << text;
}

// A locale as in Germany: comma as decimal sign, point between thousands.
class GermanNumbers : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Numbers, DoNotDependOnTheLocale) {
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new GermanNumbers));
  EXPECT_EQ(*parse_float("0.5"), 0.5f);
  EXPECT_FALSE(parse_float("0,5").ok());
  EXPECT_EQ(*parse_int32("1000", 0, 5000), 1000);
  EXPECT_FALSE(parse_int32("1.000", 0, 5000).ok());
  EXPECT_THAT(parse_int32("6000", 0, 5000).status().message(), HasSubstr("to 5000"));
  std::locale::global(before);
}

}  // namespace
}  // namespace headrace::cli
