// SPDX-License-Identifier: Apache-2.0
// A second, naive derivation of everything that metadata derives, written over per-row vectors and
// token by token instead of by prefix sums and searches. It shares no code with src/metadata.
#pragma once

#include <string>

#include "metadata/arena.h"
#include "metadata/split.h"

namespace headrace::test {

// Compares every derived array over its full size, counts and bounds included. Empty when all is
// right, else the first array that differs, where, and what was expected.
std::string step_mismatch(const metadata::StepArena& arena);

// Walks all workers of a split: every key that a row needs is covered once, no worker has more than
// one unit above the ideal, partial results are dense, in key order and within their bound.
std::string split_mismatch(const metadata::StepView& step, const metadata::SplitView& split);

}  // namespace headrace::test
