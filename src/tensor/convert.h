// SPDX-License-Identifier: Apache-2.0
// Floating-point elements in memory to fp32 and back. Memory may be unaligned: weights lie in
// mapped files where a header puts them.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"

namespace headrace {

// fp32, bf16 or fp16.
bool is_float_dtype(DType dtype);

// `count` elements of `data` from element `offset` on, widened to fp32. `dtype` must be a float
// one.
void widen(const void* data, DType dtype, int64_t offset, int64_t count, float* out);
// The inverse, to every `stride`-th element from `offset` on; rounds to nearest even.
void narrow(const float* values, int64_t count, void* data, DType dtype, int64_t offset,
            int64_t stride = 1);

}  // namespace headrace
