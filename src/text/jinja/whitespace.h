// SPDX-License-Identifier: Apache-2.0
// str.strip() of Python and its halves, on well-formed UTF-8.
#pragma once

#include <string_view>

namespace headrace::text::jinja {

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace headrace::text::jinja
