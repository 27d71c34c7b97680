// SPDX-License-Identifier: Apache-2.0
// A steady decode step of the engine allocates nothing. Not built with sanitizers, which bring an
// allocator of their own.
#ifndef HEADRACE_SANITIZER
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "engine/engine_test_util.h"

namespace {

thread_local long allocations = 0;  // NOLINT: counts for this test program

}  // namespace

void* operator new(size_t size_bytes) {
  ++allocations;
  if (void* memory = std::malloc(size_bytes > 0 ? size_bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace headrace::engine {
namespace {

TEST(EngineAllocationTest, ASteadyDecodeStepAllocatesNothing) {
  LoopHarness h({.max_rows = 4, .max_model_len = 512, .num_pages = 128});
  int64_t heard = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    Request request;
    request.prompt_token_ids = make_prompt(20, i);
    request.max_tokens = 200;
    h.loop->add(std::make_unique<LiveRequest>(
        Sequence(i + 1, request, {}, 512),
        [&heard](const RequestUpdate& update) {
          heard += static_cast<int64_t>(update.token_ids.size());
        },
        nullptr));
  }
  // The first steps capture graphs and make the vectors of a step as large as they will be.
  for (int i = 0; i < 3; ++i) h.loop->step();
  const long before = allocations;
  for (int i = 0; i < 150; ++i) h.loop->step();
  EXPECT_EQ(h.loop->metrics().num_running, 3);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(heard, h.loop->metrics().generated_tokens);
}

}  // namespace
}  // namespace headrace::engine
#endif
