// SPDX-License-Identifier: Apache-2.0
// The printable alphabet in which byte-level vocabularies are written: every byte stands as one
// character (a space as U+0120), so that a JSON file can hold any byte string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::text {

// The character of a byte, as UTF-8 of one or two bytes.
std::string_view byte_to_char(uint8_t byte);

// Appends the alphabet's spelling of `bytes`.
void append_byte_chars(std::string_view bytes, std::string& out);

// The bytes that `token` spells; a token with a character outside the alphabet spells its own
// UTF-8.
std::string spelled_bytes(std::string_view token);

}  // namespace headrace::text
