// SPDX-License-Identifier: Apache-2.0
// Rewrites a regular expression as tokenizer.json has it (Oniguruma's Ruby syntax) into one that
// means the same to PCRE2. Runs nothing.
#pragma once

#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace::text {

// kUnsupported, naming the construct and its offset, for what has no equivalent here.
Result<std::string> to_pcre2_pattern(std::string_view pattern);

}  // namespace headrace::text
