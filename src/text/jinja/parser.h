// SPDX-License-Identifier: Apache-2.0
// From tokens to a tree. What the language has and this project has not is refused here, by name
// and line, so that a template either works or does not load. Evaluates nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.h"
#include "text/jinja/ast.h"

namespace headrace::text::jinja {

// `variables` are the names that a template may use beside those it sets itself.
Result<Block> parse_template(std::string_view source, const std::vector<std::string>& variables);

}  // namespace headrace::text::jinja
