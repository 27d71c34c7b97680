// SPDX-License-Identifier: Apache-2.0
// A small set of choices in which every pair of values of two axes occurs.
#pragma once

#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "tests/support/random_steps.h"

namespace headrace::test {

// sizes[a]: number of values of axis a. A choice has one value for each axis. Greedy: of some
// random choices that cover a missing pair the one that covers most.
inline std::vector<std::vector<int>> pairwise_choices(const std::vector<int>& sizes) {
  using Pair = std::tuple<size_t, size_t, int, int>;
  const auto pairs_of = [&](const std::vector<int>& choice) {
    std::vector<Pair> pairs;
    for (size_t a = 0; a < sizes.size(); ++a) {
      for (size_t b = a + 1; b < sizes.size(); ++b) pairs.emplace_back(a, b, choice[a], choice[b]);
    }
    return pairs;
  };
  std::set<Pair> missing;
  for (size_t a = 0; a < sizes.size(); ++a) {
    for (size_t b = a + 1; b < sizes.size(); ++b) {
      for (int i = 0; i < sizes[a]; ++i) {
        for (int j = 0; j < sizes[b]; ++j) missing.emplace(a, b, i, j);
      }
    }
  }
  Random random(5);
  std::vector<std::vector<int>> choices;
  while (!missing.empty()) {
    std::vector<int> best;
    size_t best_covers = 0;
    for (int attempt = 0; attempt < 60; ++attempt) {
      std::vector<int> choice;
      for (const int size : sizes) choice.push_back(random.in(0, size - 1));
      const auto& [a, b, i, j] = *missing.begin();
      choice[a] = i;
      choice[b] = j;
      size_t covers = 0;
      for (const Pair& pair : pairs_of(choice)) covers += missing.count(pair);
      if (covers > best_covers) {
        best = choice;
        best_covers = covers;
      }
    }
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
    choices.push_back(best);
  }
  return choices;
}

}  // namespace headrace::test
