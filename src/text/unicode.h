// SPDX-License-Identifier: Apache-2.0
// Character properties that tokenizers ask for, as of Unicode 16, and NFC. Knows no tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace::text {

enum class CharClass : uint8_t {
  kOther,    // punctuation, symbols, controls, unassigned
  kLetter,   // \p{L}
  kMark,     // \p{M}
  kNumber,   // \p{N}
  kSpace,    // \s: the White_Space property
  kNewline,  // U+000A and U+000D, which are white space too
};

CharClass classify_slow(uint32_t code_point);

namespace internal {
extern const CharClass kAsciiClass[128];
}

inline CharClass classify(uint32_t code_point) {
  return code_point < 128 ? internal::kAsciiClass[code_point] : classify_slow(code_point);
}

inline bool is_space(uint32_t code_point) {
  const CharClass c = classify(code_point);
  return c == CharClass::kSpace || c == CharClass::kNewline;
}

// \w of the Rust regex engine, which decides where a `single_word` token may stand.
bool is_word(uint32_t code_point);

// Canonical composition. `text` must be well-formed UTF-8.
Result<std::string> normalize_nfc(std::string_view text);

}  // namespace headrace::text
