// SPDX-License-Identifier: Apache-2.0
// From the matches of a pattern to the parts that a split rule makes of them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/splitter.h"

namespace headrace::text {

struct Match {
  size_t begin = 0;
  size_t end = 0;
};

// Appends the parts of `piece`; `matches` are in order, without overlap, and may be empty.
void append_parts(std::string_view piece, const std::vector<Match>& matches, SplitRule rule,
                  Pieces& parts);

}  // namespace headrace::text
