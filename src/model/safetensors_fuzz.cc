// SPDX-License-Identifier: Apache-2.0
// Any bytes at all: the reader answers with entries inside the file or with an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto entries =
      headrace::model::parse_safetensors(std::as_bytes(std::span<const uint8_t>(data, size)));
  if (!entries.ok()) {
    if (entries.status().message().empty()) __builtin_trap();
    return 0;
  }
  for (const headrace::model::TensorEntry& entry : *entries) {
    if (entry.begin_bytes > entry.end_bytes || entry.end_bytes > size) __builtin_trap();
  }
  return 0;
}
