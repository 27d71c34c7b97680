// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "text/jinja/string_literal.h"
#include "text/jinja/whitespace.h"

namespace headrace::text::jinja {
namespace {

// Every line end becomes "\n", and one at the end of the template is dropped.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      HEADRACE_RETURN_IF_ERROR(text_and_tag());
    }
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t count) {
    const std::string_view passed = rest().substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += count;
    line_starts_ = !passed.empty() && passed.back() == '\n';
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 >= source_.size()) break;
      const char c = source_[at + 1];
      if (c == '%' || c == '{' || c == '#') return at;
    }
    return source_.size();
  }

  // The text up to the next tag, then the tag.
  Status text_and_tag() {
    const size_t tag = find_tag(at_);
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool signed_tag = kind != '\0' && (sign == '-' || sign == '+');
    const size_t text_size = text.size();
    if (signed_tag && sign == '-') {
      text = strip_right(text);
    } else if ((kind == '%' || kind == '#') && !signed_tag) {
      text = strip_indentation(text);
    }
    if (!text.empty()) push(TokenKind::kText, std::string(text));
    advance(text_size);
    if (kind == '\0') return {};
    const int line = line_;
    const size_t begin_size = signed_tag ? 3 : 2;
    if (kind == '#') return comment(begin_size);
    push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, {});
    advance(begin_size);
    return inside_tag(kind == '%', line);
  }

  // Without the white space between the last line end and the end, if nothing else is there.
  std::string_view strip_indentation(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starts_) return text;
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    return strip_right(text.substr(line_begin)).empty() ? text.substr(0, line_begin) : text;
  }

  Status comment(size_t begin_size) {
    const size_t close = source_.find("#}", at_ + begin_size);
    if (close == std::string::npos) return syntax_error(line_, "\"{#\" without \"#}\"");
    const char sign = close > at_ + begin_size ? source_[close - 1] : '\0';
    advance(close - at_);
    end_tag(2, sign, true);
    return {};
  }

  // Passes the end of a tag, and the white space that goes with it.
  void end_tag(size_t size, char sign, bool trims_newline) {
    advance(size);
    if (sign == '-') {
      const size_t spaces = rest().size() - strip_left(rest()).size();
      if (spaces > 0) advance(spaces);
    } else if (sign != '+' && trims_newline && next_is("\n")) {
      advance(1);
    }
  }

  Status inside_tag(bool is_block, int begin_line) {
    const std::string_view end = is_block ? "%}" : "}}";
    int open_braces = 0;
    while (at_ < source_.size()) {
      const std::string_view spaces = rest().substr(0, rest().size() - strip_left(rest()).size());
      if (!spaces.empty()) {
        advance(spaces.size());
        continue;
      }
      // A sign before the end belongs to it; "+" only in blocks.
      const char c = source_[at_];
      const bool has_sign = c == '-' || (c == '+' && is_block);
      if (open_braces == 0 && rest().substr(has_sign ? 1 : 0).starts_with(end)) {
        push(is_block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, {});
        end_tag(end.size() + (has_sign ? 1 : 0), has_sign ? c : '\0', is_block);
        return {};
      }
      if (c == '{') ++open_braces;
      if (c == '}') --open_braces;
      HEADRACE_RETURN_IF_ERROR(token());
    }
    return syntax_error(begin_line,
                        fmt::format("\"{}\" without \"{}\"", is_block ? "{%" : "{{", end));
  }

  Status token() {
    const char c = source_[at_];
    if (is_name_start(c)) {
      const auto end = std::find_if_not(source_.begin() + static_cast<ptrdiff_t>(at_),
                                        source_.end(), is_name_char);
      const auto size = static_cast<size_t>(end - source_.begin()) - at_;
      push(TokenKind::kName, std::string(rest().substr(0, size)));
      advance(size);
      return {};
    }
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string();
    for (const std::string_view symbol : {"==", "!=", ">=", "<=", "//", "**"}) {
      if (next_is(symbol)) {
        push(TokenKind::kSymbol, std::string(symbol));
        advance(symbol.size());
        return {};
      }
    }
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      return syntax_error(
          line_, fmt::format("unexpected character (byte 0x{:02x})", static_cast<uint8_t>(c)));
    }
    push(TokenKind::kSymbol, std::string(1, c));
    advance(1);
    return {};
  }

  Status number() {
    size_t size = 0;
    while (size < rest().size() && is_digit(rest()[size])) ++size;
    const std::string_view digits = rest().substr(0, size);
    const char next = size < rest().size() ? rest()[size] : '\0';
    const bool is_float = next == '.' && size + 1 < rest().size() && is_digit(rest()[size + 1]);
    if (is_float || is_name_char(next))
      return not_supported(line_, "a number that is no plain integer");
    Token number{TokenKind::kInteger, line_, std::string(digits)};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number.integer).ec !=
        std::errc()) {
      return not_supported(line_, "an integer of more than 64 bits");
    }
    tokens_.push_back(std::move(number));
    advance(size);
    return {};
  }

  Status string() {
    size_t size = 1;
    while (size < rest().size() && rest()[size] != rest()[0]) size += rest()[size] == '\\' ? 2 : 1;
    if (size >= rest().size()) return syntax_error(line_, "a string without its closing quote");
    auto text = unescape(rest().substr(1, size - 1));
    if (!text.ok()) return text.status().with_context(fmt::format("line {}", line_));
    push(TokenKind::kString, std::move(text).value());
    advance(size + 1);
    return {};
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // what was passed last ends with a line end, or nothing was
};

}  // namespace

Status syntax_error(int line, std::string_view message) {
  return invalid_data(fmt::format("line {}: {}", line, message));
}

Status not_supported(int line, std::string_view construct) {
  return unsupported(
      fmt::format("line {}: {} is not supported in a chat template", line, construct));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_lines(source)).run();
}

}  // namespace headrace::text::jinja
