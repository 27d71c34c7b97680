// SPDX-License-Identifier: Apache-2.0
// The launch behind merge_state_on_device(). No CUDA type here: the C++ compiler reads it.
#pragma once

#include "headrace/merge_state.h"
#include "headrace/status.h"

namespace headrace::attention {

// `stream` is a cudaStream_t; the arguments have been checked.
Status launch_merge_state(const MergeStateParams& params, void* stream);

}  // namespace headrace::attention
