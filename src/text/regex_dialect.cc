// SPDX-License-Identifier: Apache-2.0
#include "text/regex_dialect.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

namespace headrace::text {
namespace {

// PCRE2's own \s has U+180E, and its \w lacks marks: spelled out, both mean what Oniguruma means.
constexpr std::string_view kSpaceSet =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpaceSet =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexSet = "0-9A-Fa-f";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) HEADRACE_RETURN_IF_ERROR(in_class_ ? class_item() : item());
    return std::move(out_);
  }

 private:
  bool next_is(std::string_view text) const { return in_.substr(at_, text.size()) == text; }

  void copy(size_t count) {
    out_.append(in_.substr(at_, count));
    at_ += count;
  }

  Status refuse(std::string_view construct) const {
    return unsupported(
        fmt::format("pre-tokenizer pattern: {} at offset {} is not supported", construct, at_));
  }

  // A set that stands inside or outside of brackets.
  void put_set(std::string_view set, bool negated) {
    if (in_class_) {
      out_.append(set);
    } else {
      out_.append(negated ? "[^" : "[").append(set).append("]");
    }
  }

  Status escape() {
    if (at_ + 1 >= in_.size()) return refuse("a backslash at the end");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        put_set(kSpaceSet, false);
        break;
      case 'S':
        put_set(kNotSpaceSet, false);
        break;
      case 'w':
        put_set(kWordSet, false);
        break;
      case 'h':
        put_set(kHexSet, false);
        break;
      case 'W':
      case 'H':
        if (in_class_) return refuse(fmt::format("\\{} in brackets", c));
        put_set(c == 'W' ? kWordSet : kHexSet, true);
        break;
      case 'b':
        if (in_class_) {
          out_.append("\\b");
        } else {
          out_.append(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordSet));
        }
        break;
      case 'u': {
        const std::string_view digits = in_.substr(at_ + 2, 4);
        for (const char digit : digits) {
          if (!std::isxdigit(static_cast<unsigned char>(digit))) return refuse("\\u");
        }
        if (digits.size() != 4) return refuse("\\u");
        out_.append(fmt::format("\\x{{{}}}", digits));
        at_ += 4;
        break;
      }
      case 'p':
      case 'P': {
        const size_t close = in_.find('}', at_);
        if (!in_.substr(at_ + 2).starts_with("{") || close == std::string_view::npos) {
          return refuse("\\p without braces");
        }
        copy(close + 1 - at_);
        return {};
      }
      case 'B':
      case 'C':
      case 'E':
      case 'G':
      case 'K':
      case 'M':
      case 'N':
      case 'O':
      case 'Q':
      case 'X':
      case 'Y':
      case 'c':
      case 'g':
      case 'k':
      case 'v':
      case 'y':
        return refuse(fmt::format("\\{}", c));
      default:
        copy(2);
        return {};
    }
    at_ += 2;
    return {};
  }

  Status class_item() {
    if (next_is("&&")) return refuse("&& in brackets");
    const char c = in_[at_];
    if (c == '[') {
      const size_t close = in_.find(":]", at_);
      if (!next_is("[:") || close == std::string_view::npos) return refuse("a set inside a set");
      copy(close + 2 - at_);
      return {};
    }
    if (c == '\\') return escape();
    if (c == ']') {
      in_class_ = false;
    }
    copy(1);
    return {};
  }

  Status group() {
    groups_.push_back(out_.size());
    if (!next_is("(?")) {
      copy(1);
      return {};
    }
    for (const std::string_view plain :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (next_is(plain)) {
        copy(plain.size());
        return {};
      }
    }
    if (next_is("(?i)")) {
      copy(4);
      groups_.pop_back();
      return {};
    }
    return refuse(fmt::format("the group \"{}\"", in_.substr(at_, 4)));
  }

  // {n}, {n,}, {,m} or {n,m} at `at_`; anything else is a literal brace.
  Status braces() {
    size_t end = at_ + 1;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) || in_[end] == ',')) {
      ++end;
    }
    const std::string_view range = in_.substr(at_ + 1, end - at_ - 1);
    if (end >= in_.size() || in_[end] != '}' || range.empty() || range == ",") {
      out_.append("\\{");
      ++at_;
      return {};
    }
    const bool from_zero = range.front() == ',';
    at_ = end + 1;
    // A "+" after braces repeats once more; to PCRE2 it would forbid going back.
    const bool repeated = next_is("+");
    if (repeated) out_.insert(atom_, "(?:");
    out_.append(fmt::format("{{{}{}}}", from_zero ? "0" : "", range));
    if (repeated) out_.append(")");
    return {};
  }

  Status item() {
    const char c = in_[at_];
    switch (c) {
      case '{':
        return braces();
      case '*':
      case '+':
      case '?':
        copy(1);
        return {};
      case '\\':
        atom_ = out_.size();
        return escape();
      case '(':
        return group();
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        copy(1);
        return {};
      case '[':
        atom_ = out_.size();
        in_class_ = true;
        copy(next_is("[^") ? 2 : 1);
        if (next_is("]")) return refuse("\"]\" as the first in brackets");
        return {};
      default:
        atom_ = out_.size();
        do {
          copy(1);
        } while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xC0) == 0x80);
        return {};
    }
  }

  std::string_view in_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
  size_t atom_ = 0;             // where the last atom starts in `out_`
  std::vector<size_t> groups_;  // where the open groups start in `out_`
};

}  // namespace

Result<std::string> to_pcre2_pattern(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace headrace::text
