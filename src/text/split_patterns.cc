// SPDX-License-Identifier: Apache-2.0
#include "text/split_patterns.h"

#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr uint32_t kLongS = 0x17F;  // the one other character that equals "s" when case is ignored

// The class of the code point at an offset, and where the next one starts.
struct Look {
  uint32_t code_point = 0;
  CharClass char_class = CharClass::kOther;
  size_t end = 0;
};

Look look(std::string_view text, size_t offset) {
  Look result;
  result.end = offset;
  result.code_point = next_code_point(text, result.end);
  result.char_class = classify(result.code_point);
  return result;
}

bool is_space_class(CharClass c) { return c == CharClass::kSpace || c == CharClass::kNewline; }

// End of the run, from `offset` on, of code points whose class satisfies `belongs`.
template <typename Belongs>
size_t run_end(std::string_view text, size_t offset, Belongs belongs) {
  while (offset < text.size()) {
    const Look next = look(text, offset);
    if (!belongs(next.char_class)) break;
    offset = next.end;
  }
  return offset;
}

// End of 's 't 're 've 'm 'll 'd at `offset`, where an apostrophe stands; `offset` if none does.
size_t contraction_end(std::string_view text, size_t offset, bool ignore_case) {
  const auto letter_at = [&](size_t i) -> char {
    if (i >= text.size()) return '\0';
    const char c = text[i];
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter_at(offset + 1);
  const char second = letter_at(offset + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return offset + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    return offset + 3;
  }
  if (ignore_case && offset + 1 < text.size()) {
    const Look next = look(text, offset + 1);
    if (next.code_point == kLongS) return next.end;
  }
  return offset;
}

// \s+(?!\S)|\s+ at `offset`, a space: all white space at the end of the text; else all but the last
// character, which belongs to the word after it; but at least one.
size_t spaces_end(std::string_view text, size_t offset) {
  const size_t end = run_end(text, offset, is_space_class);
  if (end == text.size()) return end;
  const size_t last = previous_code_point_start(text, end);
  return last > offset ? last : end;
}

size_t gpt2_word_end(std::string_view text, size_t begin) {
  const Look first = look(text, begin);
  if (first.code_point == '\'') {
    const size_t end = contraction_end(text, begin, false);
    if (end > begin) return end;
  }
  // One space joins the letters, numbers or other characters after it.
  Look head = first;
  if (first.code_point == ' ' && first.end < text.size()) head = look(text, first.end);
  switch (head.char_class) {
    case CharClass::kLetter:
      return run_end(text, head.end, [](CharClass c) { return c == CharClass::kLetter; });
    case CharClass::kNumber:
      return run_end(text, head.end, [](CharClass c) { return c == CharClass::kNumber; });
    case CharClass::kMark:
    case CharClass::kOther:
      return run_end(text, head.end,
                     [](CharClass c) { return c == CharClass::kOther || c == CharClass::kMark; });
    case CharClass::kSpace:
    case CharClass::kNewline:
      break;
  }
  return spaces_end(text, begin);
}

// The pattern that Llama 3, Qwen2 and Qwen3.5 share: they differ in how many digits go together and
// in whether marks count as letters.
template <int kMaxDigits, bool kMarksAreLetters>
size_t word_end(std::string_view text, size_t begin) {
  const auto is_letter = [](CharClass c) {
    return c == CharClass::kLetter || (kMarksAreLetters && c == CharClass::kMark);
  };
  const auto is_other = [&](CharClass c) {
    return c == CharClass::kOther || (!kMarksAreLetters && c == CharClass::kMark);
  };
  const auto is_newline = [](CharClass c) { return c == CharClass::kNewline; };

  const Look first = look(text, begin);
  if (first.code_point == '\'') {
    const size_t end = contraction_end(text, begin, true);
    if (end > begin) return end;
  }
  if (is_letter(first.char_class)) return run_end(text, first.end, is_letter);
  if (first.char_class == CharClass::kNumber) {
    size_t end = first.end;
    for (int i = 1; i < kMaxDigits && end < text.size(); ++i) {
      const Look next = look(text, end);
      if (next.char_class != CharClass::kNumber) break;
      end = next.end;
    }
    return end;
  }
  if (first.end < text.size() && first.char_class != CharClass::kNewline) {
    // Any one character that is no letter, number or line end joins the letters after it.
    const Look second = look(text, first.end);
    if (is_letter(second.char_class)) return run_end(text, second.end, is_letter);
    if (first.code_point == ' ' && is_other(second.char_class)) {
      return run_end(text, run_end(text, second.end, is_other), is_newline);
    }
  }
  if (is_other(first.char_class)) {
    return run_end(text, run_end(text, first.end, is_other), is_newline);
  }
  // White space: up to and with its last line end, if it has one.
  size_t last_newline_end = begin;
  for (size_t i = begin; i < text.size();) {
    const Look next = look(text, i);
    if (!is_space_class(next.char_class)) break;
    i = next.end;
    if (is_newline(next.char_class)) last_newline_end = i;
  }
  return last_newline_end > begin ? last_newline_end : spaces_end(text, begin);
}

template <size_t (*kWordEnd)(std::string_view, size_t)>
void split_with(std::string_view text, Pieces& words) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = kWordEnd(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

void split_gpt2(std::string_view text, Pieces& words) { split_with<gpt2_word_end>(text, words); }

SplitFunction find_split_function(std::string_view pattern) {
  const std::pair<std::string_view, SplitFunction> known[] = {
      {kGpt2Pattern, split_gpt2},
      {kLlama3Pattern, split_with<word_end<3, false>>},
      {kQwen2Pattern, split_with<word_end<1, false>>},
      {kQwen35Pattern, split_with<word_end<1, true>>},
  };
  for (const auto& [text, function] : known) {
    if (text == pattern) return function;
  }
  return nullptr;
}

}  // namespace headrace::text
