// SPDX-License-Identifier: Apache-2.0
// A further split of a step's decode work, for a group of layers that needs another one than the
// step carries: a sliding window, another number of workers, or the fixed cut.
#pragma once

#include <cstdint>

#include "metadata/split.h"
#include "metadata/step.h"
#include "tensor/stream.h"

namespace headrace::metadata {

// Submits the making of the two arrays, each [R + 1] and kept by the caller: one launch, no
// allocation, nothing read back. Runs after build() of the step, before the layers of the group.
void build_split(Stream& stream, const StepView& step, const SplitShape& shape, int32_t* unit_start,
                 int32_t* partial_start);

}  // namespace headrace::metadata
