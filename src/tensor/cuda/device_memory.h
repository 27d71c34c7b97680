// SPDX-License-Identifier: Apache-2.0
// What Buffer takes its CUDA memory from. No CUDA type here: Buffer is compiled by the C++
// compiler.
#pragma once

#include <cstddef>

#include "headrace/status.h"

namespace headrace {

// At least 256-byte aligned, every byte zero when the call returns.
Result<void*> allocate_device_memory(size_t size_bytes);
void free_device_memory(void* data);

}  // namespace headrace
