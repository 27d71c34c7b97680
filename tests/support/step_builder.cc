// SPDX-License-Identifier: Apache-2.0
#include "tests/support/step_builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "metadata/index.h"
#include "metadata/split.h"

namespace headrace::test {
namespace {

using metadata::Limits;
using metadata::Row;
using metadata::StepArrays;
using metadata::StepInput;

// Ids that no pool has: reading through one faults or fails a bounds check.
constexpr int32_t kGarbage = 0x5A5A5A5A;

int32_t granted_pages(const TestRow& row, int32_t page_size) {
  if (row.query_len == 0) return 0;
  if (!row.pages.empty()) return static_cast<int32_t>(row.pages.size());
  return metadata::pages_for(row.context_len + row.query_len, page_size) + row.extra_pages;
}

Limits limits_for(const std::vector<TestRow>& rows, const TestStepOptions& options) {
  Limits limits;
  limits.page_size = options.page_size;
  limits.num_workers = options.num_workers;
  limits.split_tokens = options.split_tokens;
  limits.max_checkpoints = static_cast<int32_t>(options.checkpoints.size());
  int32_t num_tokens = 0;
  for (const TestRow& row : rows) {
    num_tokens += row.query_len;
    limits.max_pages_per_row =
        std::max(limits.max_pages_per_row, granted_pages(row, options.page_size));
  }
  const int32_t num_rows = static_cast<int32_t>(rows.size());
  limits.max_tokens = options.max_tokens > 0 ? options.max_tokens : std::max(num_tokens, 1);
  limits.max_rows =
      options.max_rows > 0 ? options.max_rows : std::max({num_rows, options.padded_rows, 1});
  if (options.max_pages_per_row > 0) limits.max_pages_per_row = options.max_pages_per_row;
  return limits;
}

metadata::StepArena make_arena(const std::vector<TestRow>& rows, const TestStepOptions& options) {
  auto arena = metadata::StepArena::create(Device::kCpu, limits_for(rows, options));
  if (!arena.ok()) throw std::runtime_error(arena.status().message());
  return std::move(arena).value();
}

Row garbage_row(int32_t query_len) {
  Row row;
  std::memset(static_cast<void*>(&row), 0x5A, sizeof(row));
  row.query_len = query_len;
  return row;
}

// Hands out ids from 1 that no row has named.
class FreeSlots {
 public:
  explicit FreeSlots(const std::vector<TestRow>& rows,
                     const std::vector<metadata::Checkpoint>& checkpoints) {
    for (const TestRow& row : rows) {
      taken_.insert({row.initial_slot, row.final_slot});
    }
    for (const metadata::Checkpoint& checkpoint : checkpoints) taken_.insert(checkpoint.slot);
  }
  int32_t take() {
    while (taken_.count(next_) != 0) ++next_;
    return next_++;
  }
  int32_t num_slots() const { return std::max(next_, taken_.empty() ? 1 : *taken_.rbegin() + 1); }

 private:
  std::set<int32_t> taken_;
  int32_t next_ = 1;
};

template <typename T>
void poison_array(T* array, int64_t count) {
  std::memset(static_cast<void*>(array), 0xA5, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

TestStep::TestStep(const std::vector<TestRow>& rows, const TestStepOptions& options)
    : options_(options),
      pool_(std::make_unique<ThreadPool>(options.num_threads)),
      stream_(std::make_unique<CpuStream>(*pool_)),
      arena_(make_arena(rows, options)) {
  set_rows(rows, options.padded_rows, options.checkpoints);
  rebuild();
}

void TestStep::set_rows(const std::vector<TestRow>& rows, int32_t padded_rows,
                        const std::vector<metadata::Checkpoint>& checkpoints) {
  const Limits& limits = arena_.limits();
  const StepInput& input = arena_.input();
  const int32_t num_rows = static_cast<int32_t>(rows.size());
  if (num_rows > limits.max_rows ||
      static_cast<int32_t>(checkpoints.size()) > limits.max_checkpoints) {
    throw std::runtime_error("more rows or checkpoints than the arena holds");
  }
  *input.num_rows = num_rows;
  *input.padded_rows = std::max(num_rows, padded_rows);
  *input.num_checkpoints = static_cast<int32_t>(checkpoints.size());
  std::copy(checkpoints.begin(), checkpoints.end(), input.checkpoints);

  // Pages that a test named are not given to another row.
  std::set<int32_t> named;
  int32_t wanted = 0;
  for (const TestRow& row : rows) {
    named.insert(row.pages.begin(), row.pages.end());
    if (row.pages.empty()) wanted += granted_pages(row, limits.page_size);
  }
  std::vector<int32_t> free_pages;
  int32_t next_page = metadata::kNullPage + 1;
  for (; static_cast<int32_t>(free_pages.size()) < wanted; ++next_page) {
    if (named.count(next_page) == 0) free_pages.push_back(next_page);
  }
  num_pages_ = std::max(next_page, named.empty() ? 1 : *named.rbegin() + 1);
  if (options_.shuffle_pages) {
    std::mt19937_64 random(options_.seed);
    std::shuffle(free_pages.begin(), free_pages.end(), random);
  }

  FreeSlots slots(rows, checkpoints);
  size_t next_free = 0;
  for (int32_t r = 0; r < limits.max_rows; ++r) {
    int32_t* table = input.page_table + static_cast<int64_t>(r) * limits.max_pages_per_row;
    if (options_.poison) std::fill_n(table, limits.max_pages_per_row, kGarbage);
    if (r >= num_rows || rows[static_cast<size_t>(r)].query_len == 0) {
      const bool past_rows = r >= num_rows;
      input.rows[r] = options_.poison ? garbage_row(past_rows ? kGarbage : 0) : Row{};
      continue;
    }
    const TestRow& from = rows[static_cast<size_t>(r)];
    const int32_t num_granted = granted_pages(from, limits.page_size);
    if (num_granted > limits.max_pages_per_row) {
      throw std::runtime_error("more pages than the arena's page table holds");
    }
    for (int32_t i = 0; i < num_granted; ++i) {
      table[i] = from.pages.empty() ? free_pages[next_free++] : from.pages[static_cast<size_t>(i)];
    }
    Row& row = input.rows[r];
    row = Row{from.query_len,    from.context_len, from.num_drafts,   from.flags,
              from.initial_slot, from.final_slot,  from.num_accepted, num_granted};
    if (row.initial_slot == kAutoSlot) row.initial_slot = slots.take();
    if (row.final_slot == kAutoSlot) {
      row.final_slot = from.initial_slot == kAutoSlot ? row.initial_slot : slots.take();
    }
  }
  num_slots_ = slots.num_slots();
  const Status status = metadata::check_rows(arena_);
  if (!status.ok()) throw std::runtime_error(status.message());
}

void TestStep::rebuild() {
  if (options_.poison) poison_derived(arena_);
  metadata::build(*stream_, arena_);
}

void poison_derived(const metadata::StepArena& arena) {
  const StepArrays& a = arena.arrays();
  const int64_t rows = a.limits.max_rows;
  const int64_t tokens = a.limits.max_tokens;
  const int64_t chunks = metadata::max_chunks(a.limits);
  poison_array(a.counts, 1);
  poison_array(a.split_workers, a.limits.num_workers);
  poison_array(a.kind, rows);
  for (int32_t* array : {a.query_len, a.context_len, a.seq_len, a.pages_used, a.last_page_len,
                         a.initial_slot, a.final_slot, a.num_accepted, a.decode_rows, a.verify_rows,
                         a.prefill_rows, a.group_start}) {
    poison_array(array, rows);
  }
  for (int32_t* array : {a.query_start_i32, a.page_start, a.chunk_start, a.logit_start,
                         a.split_unit_start, a.split_partial_start}) {
    poison_array(array, rows + 1);
  }
  poison_array(a.query_start_i64, rows + 1);
  poison_array(a.has_initial_state, rows);
  for (int32_t* array :
       {a.token_row, a.token_position, a.token_permutation, a.token_inverse, a.logit_tokens}) {
    poison_array(array, tokens);
  }
  poison_array(a.slot_mapping, tokens);
  for (int32_t* array : {a.chunk_row, a.chunk_token, a.chunk_len}) poison_array(array, chunks);
  // Of the page table the build promises to clear what an earlier build used, no more.
  for (int64_t r = 0; r < rows; ++r) {
    poison_array(a.page_table + r * a.limits.max_pages_per_row, a.pages_filled[r]);
  }
}

}  // namespace headrace::test
