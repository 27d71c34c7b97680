// SPDX-License-Identifier: Apache-2.0
// Makes the metadata of a step for a test: rows are described by their lengths, and pages and slots
// that the test does not care about are chosen here (at random, no page in two rows, page 0 and
// slot 0 never).
//
//   TestStep step({{.query_len = 1, .context_len = 17}, {.query_len = 5}}, {.page_size = 16});
//   params.step = step.view();
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "metadata/arena.h"
#include "tensor/stream.h"

namespace headrace::test {

inline constexpr int32_t kAutoSlot = -1;

struct TestRow {
  int32_t query_len = 0;  // 0: a padding row
  int32_t context_len = 0;
  int32_t num_drafts = 0;
  uint32_t flags = metadata::kRowEmit;
  // Automatic: a slot of its own, state updated in place. If only one of them is automatic, it is a
  // slot of its own too.
  int32_t initial_slot = kAutoSlot;
  int32_t final_slot = kAutoSlot;
  int32_t num_accepted = 0;
  int32_t extra_pages = 0;          // granted beyond what the row's tokens need
  std::vector<int32_t> pages = {};  // its page table; empty: free pages are taken
};

struct TestStepOptions {
  int32_t page_size = 16;
  int32_t max_rows = 0;           // 0: as many as the rows, or padded_rows
  int32_t max_tokens = 0;         // 0: as many as the rows bring
  int32_t max_pages_per_row = 0;  // 0: as many as the longest row is granted
  int32_t padded_rows = 0;        // 0: no bucket padding
  int32_t num_workers = 4;
  int32_t split_tokens = 64;
  std::vector<metadata::Checkpoint> checkpoints = {};
  uint64_t seed = 1;          // of the choice of pages
  bool shuffle_pages = true;  // false: pages 1, 2, 3 … in row order
  // Fills what must not be read with garbage: page table entries past the granted ones, all fields
  // but query_len of padding rows, rows past num_rows, and the derived arrays before each build.
  bool poison = true;
  int num_threads = 1;  // of pool(), the calling one included
};

class TestStep {
 public:
  // Throws std::runtime_error with check_rows()' message when the rows are not valid.
  explicit TestStep(const std::vector<TestRow>& rows, const TestStepOptions& options = {});

  // Other rows in the same arena, as a replay would bring them; they must be within its limits.
  // Pages and slots are given out anew. build() is not called: rebuild() or a graph does.
  void set_rows(const std::vector<TestRow>& rows, int32_t padded_rows = 0,
                const std::vector<metadata::Checkpoint>& checkpoints = {});
  // Poisons the derived arrays if asked to, and builds them.
  void rebuild();

  const metadata::StepView& view() const { return arena_.view(); }
  metadata::StepArena& arena() { return arena_; }
  ThreadPool& pool() { return *pool_; }
  CpuStream& stream() { return *stream_; }
  // Sizes that pools need for the ids in use, the null page and the null slot included.
  int32_t num_pages() const { return num_pages_; }
  int32_t num_slots() const { return num_slots_; }

 private:
  TestStepOptions options_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<CpuStream> stream_;
  metadata::StepArena arena_;
  int32_t num_pages_ = 1;
  int32_t num_slots_ = 1;
};

// Overwrites every derived array of the arena with bytes 0xA5: as if an earlier step, or nobody,
// had left them.
void poison_derived(const metadata::StepArena& arena);

}  // namespace headrace::test
