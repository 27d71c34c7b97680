// SPDX-License-Identifier: Apache-2.0
// How the thread blocks of an attention launch share its work: each takes the next piece from a
// counter in device memory. What a piece is, the kernels decide.
#pragma once

#include <cstdint>

namespace headrace::attention {

// Zero before the first launch; every launch leaves it zero. Launches that may run at the same time
// need one each.
struct WorkQueue {
  int32_t next = 0;      // first piece of work that no thread block has taken
  int32_t finished = 0;  // thread blocks that found none left
};

}  // namespace headrace::attention
