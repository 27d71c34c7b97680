// SPDX-License-Identifier: Apache-2.0
// Numbers and switches from text, the same in every locale: a whole text or an error, no blanks,
// no sign '+', a decimal point and never a comma. Messages do not name the option; callers do.
#pragma once

#include <cstdint>
#include <string_view>

#include "headrace/status.h"

namespace headrace::cli {

Result<int32_t> parse_int32(std::string_view text, int32_t min, int32_t max);
Result<uint64_t> parse_uint64(std::string_view text);
Result<float> parse_float(std::string_view text);
// true, 1, yes, on; false, 0, no, off.
Result<bool> parse_switch(std::string_view text);

}  // namespace headrace::cli
