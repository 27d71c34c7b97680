// SPDX-License-Identifier: Apache-2.0
#include "cli/nearest.h"

#include <algorithm>
#include <cstddef>

namespace headrace::cli {
namespace {

// Dashes carry no meaning of their own: "-prompt" and "--prompt" are the same word.
std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: a swap of neighbours looks two rows back.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view bare = without_dashes(word);
  if (bare.empty()) return {};

  std::string_view extended;
  int extensions = 0;
  for (std::string_view candidate : candidates) {
    if (without_dashes(candidate).substr(0, bare.size()) != bare) continue;
    extended = candidate;
    ++extensions;
  }
  if (extensions == 1) return extended;

  std::string_view best;
  int best_distance = 0;
  for (std::string_view candidate : candidates) {
    const std::string_view bare_candidate = without_dashes(candidate);
    const int distance = edit_distance(bare, bare_candidate);
    const int longer = static_cast<int>(std::max(bare.size(), bare_candidate.size()));
    if (distance > std::max(1, longer / 3)) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace headrace::cli
