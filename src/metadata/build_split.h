// SPDX-License-Identifier: Apache-2.0
// A further split of a step's decode work, for a group of layers that needs another one than the
// step carries: a sliding window, another number of workers, or the fixed cut.
#pragma once

#include <cstdint>

#include "metadata/split.h"
#include "metadata/step.h"
#include "tensor/stream.h"

namespace headrace::metadata {

// Submits the making of the arrays, which the caller keeps: one launch, no allocation, nothing read
// back. Runs after build() of the step, before the layers of the group.
void build_split(Stream& stream, const StepView& step, const SplitShape& shape,
                 const SplitArrays& out);

// One piece of memory for the arrays: its size, and where they lie in it. 64-byte aligned.
int64_t split_arrays_bytes(const Limits& limits, const SplitShape& shape);
SplitArrays split_arrays_in(void* memory, const Limits& limits, const SplitShape& shape);

}  // namespace headrace::metadata
