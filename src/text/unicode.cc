// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "text/utf8.h"

namespace headrace::text {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
  CharClass char_class;
};

// Letters, marks and numbers that Unicode 15.1 and 16 added: utf8proc 2.8 has Unicode 15, while the
// vocabularies' own tools already split by 16. Sorted.
constexpr CharClass kL = CharClass::kLetter;
constexpr CharClass kM = CharClass::kMark;
constexpr CharClass kN = CharClass::kNumber;
constexpr Range kAdditions[] = {
    {0x0897, 0x0897, kM},   {0x1C89, 0x1C8A, kL},   {0xA7CB, 0xA7CD, kL},   {0xA7DA, 0xA7DC, kL},
    {0x105C0, 0x105F3, kL}, {0x10D40, 0x10D49, kN}, {0x10D4A, 0x10D65, kL}, {0x10D69, 0x10D6D, kM},
    {0x10D6F, 0x10D85, kL}, {0x10EC2, 0x10EC4, kL}, {0x10EFC, 0x10EFC, kM}, {0x11380, 0x11389, kL},
    {0x1138B, 0x1138B, kL}, {0x1138E, 0x1138E, kL}, {0x11390, 0x113B5, kL}, {0x113B7, 0x113B7, kL},
    {0x113B8, 0x113C0, kM}, {0x113C2, 0x113C2, kM}, {0x113C5, 0x113C5, kM}, {0x113C7, 0x113CA, kM},
    {0x113CC, 0x113D0, kM}, {0x113D1, 0x113D1, kL}, {0x113D2, 0x113D2, kM}, {0x113D3, 0x113D3, kL},
    {0x113E1, 0x113E2, kM}, {0x116D0, 0x116E3, kN}, {0x11BC0, 0x11BE0, kL}, {0x11BF0, 0x11BF9, kN},
    {0x11F5A, 0x11F5A, kM}, {0x13460, 0x143FA, kL}, {0x16100, 0x1611D, kL}, {0x1611E, 0x1612F, kM},
    {0x16130, 0x16139, kN}, {0x16D40, 0x16D6C, kL}, {0x16D70, 0x16D79, kN}, {0x18CFF, 0x18CFF, kL},
    {0x1CCF0, 0x1CCF9, kN}, {0x1E5D0, 0x1E5ED, kL}, {0x1E5EE, 0x1E5EF, kM}, {0x1E5F0, 0x1E5F0, kL},
    {0x1E5F1, 0x1E5FA, kN}, {0x2EBF0, 0x2EE5D, kL},
};

CharClass classify_addition(uint32_t code_point) {
  const Range* range = std::upper_bound(
      std::begin(kAdditions), std::end(kAdditions), code_point,
      [](uint32_t value, const Range& candidate) { return value < candidate.first; });
  if (range == std::begin(kAdditions)) return CharClass::kOther;
  --range;
  return code_point <= range->last ? range->char_class : CharClass::kOther;
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

namespace internal {

// clang-format off
#define O CharClass::kOther
#define L CharClass::kLetter
#define N CharClass::kNumber
#define S CharClass::kSpace
#define R CharClass::kNewline
const CharClass kAsciiClass[128] = {
    O, O, O, O, O, O, O, O, O, S, R, S, S, R, O, O,   // tab, LF, VT, FF, CR
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef L
#undef N
#undef S
#undef R
// clang-format on

}  // namespace internal

CharClass classify_slow(uint32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    case UTF8PROC_CATEGORY_CN:
      return classify_addition(code_point);
    default:
      // U+0085 is a control by category and white space by property.
      return code_point == 0x85 ? CharClass::kSpace : CharClass::kOther;
  }
}

bool is_word(uint32_t code_point) {
  switch (classify(code_point)) {
    case CharClass::kLetter:
    case CharClass::kMark:
      return true;
    case CharClass::kNumber:
      // Decimal digits and letter numbers, but no fractions or superscripts.
      return category(code_point) != UTF8PROC_CATEGORY_NO;
    case CharClass::kSpace:
    case CharClass::kNewline:
      return false;
    case CharClass::kOther:
      break;
  }
  // Connectors, the two joiners, and the circled letters that count as alphabetic.
  return category(code_point) == UTF8PROC_CATEGORY_PC || code_point == 0x200C ||
         code_point == 0x200D || (code_point >= 0x24B6 && code_point <= 0x24E9) ||
         (code_point >= 0x1F130 && code_point <= 0x1F149) ||
         (code_point >= 0x1F150 && code_point <= 0x1F169) ||
         (code_point >= 0x1F170 && code_point <= 0x1F189);
}

Result<std::string> normalize_nfc(std::string_view text) {
  // Nothing below U+0300 (lead byte 0xCC) composes or decomposes under NFC.
  const bool unchanged =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
  if (unchanged) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0) {
    return invalid_argument(std::string("NFC normalisation failed: ") + utf8proc_errmsg(length));
  }
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

}  // namespace headrace::text
