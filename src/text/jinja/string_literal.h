// SPDX-License-Identifier: Apache-2.0
// The escapes of a string literal, as in Python.
#pragma once

#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace::text::jinja {

// `literal` without its quotes. An unknown escape stands for itself, backslash included.
Result<std::string> unescape(std::string_view literal);

}  // namespace headrace::text::jinja
