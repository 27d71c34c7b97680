// SPDX-License-Identifier: Apache-2.0
// One step of pre-tokenisation: cuts a piece of text into smaller pieces. Splitters are immutable
// and shared between threads. Knows no file format.
#pragma once

#include <memory>
#include <string_view>

#include "headrace/status.h"
#include "text/split_patterns.h"

namespace headrace::text {

class Splitter {
 public:
  virtual ~Splitter() = default;
  // Appends the parts of `piece` (well-formed UTF-8, not empty) in order; empty parts may occur.
  virtual Status split(std::string_view piece, Pieces& parts) const = 0;
};

// What becomes of the matches of a pattern, by the names of tokenizer.json.
enum class SplitBehavior {
  kIsolated,            // every match is a part of its own
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // a match ends the part before it
  kMergedWithNext,      // a match begins the part after it
  kContiguous,          // neighbouring matches become one part
};

struct SplitRule {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches counts as match and the other way round
};

// `pattern` is a regular expression as Oniguruma reads it; kUnsupported if it cannot be run here.
Result<std::unique_ptr<const Splitter>> make_regex_splitter(std::string_view pattern,
                                                            SplitRule rule);
// Always through the general engine, also for patterns that have a function of their own.
Result<std::unique_ptr<const Splitter>> make_general_regex_splitter(std::string_view pattern,
                                                                    SplitRule rule);
// Matches `literal` (not empty).
std::unique_ptr<const Splitter> make_literal_splitter(std::string_view literal, SplitRule rule);
// Matches each character of \p{N}.
std::unique_ptr<const Splitter> make_digit_splitter(SplitRule rule);

}  // namespace headrace::text
