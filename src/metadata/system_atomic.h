// SPDX-License-Identifier: Apache-2.0
// Loads and stores of 64-bit words that a CPU thread and a GPU kernel share: system scope on the
// device, std::atomic_ref's order on the host. The one place that knows which of the two it is.
#pragma once

#include <atomic>
#include <cstdint>

#include "metadata/host_device.h"

namespace headrace::metadata {

// What the other side stored before its release of the value is visible after this load.
HEADRACE_HOST_DEVICE inline uint64_t load_acquire_system(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  // atomic_ref takes no pointer to const before C++26; it only reads.
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
#endif
}

// Whoever loads the value with acquire sees all that was stored before.
HEADRACE_HOST_DEVICE inline void store_release_system(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
#endif
}

HEADRACE_HOST_DEVICE inline void store_relaxed_system(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_relaxed);
#endif
}

// Counts in device memory that several threads of one launch raise.
HEADRACE_HOST_DEVICE inline void count_one(uint64_t* counter) {
#ifdef __CUDA_ARCH__
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(counter) : "memory");
#else
  ++*counter;
#endif
}

}  // namespace headrace::metadata
