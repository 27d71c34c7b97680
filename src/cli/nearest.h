// SPDX-License-Identifier: Apache-2.0
// "Did you mean …": the known word nearest to a mistyped one.
#pragma once

#include <string_view>
#include <vector>

namespace headrace::cli {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` was probably meant to be, or an empty view: one it is the beginning
// of, if it is the only one, else the one fewest edits away (at most a third of its length).
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace headrace::cli
