// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_steps.h"

#include <algorithm>

#include "metadata/index.h"

namespace headrace::test {

using metadata::kChunkTokens;
using metadata::kMaxVerifyTokens;
using metadata::kRowEmit;
using metadata::kRowSelfAdvance;
using metadata::Limits;
using metadata::pages_for;
using metadata::Row;
using metadata::StepArena;
using metadata::StepInput;

namespace {

// A length up to `most`, often beside an edge of a page, a chunk or a unit of work.
int32_t some_length(Random& random, int32_t most, const Limits& limits) {
  int32_t len = random.in(0, most);
  switch (random.in(0, 5)) {
    case 0:
      return len;
    case 1:
      len = random.in(0, 3);
      break;
    case 2:
      len = most;
      break;
    default: {
      const int32_t edge = random.pick({limits.page_size, kChunkTokens, limits.split_tokens});
      len = len / edge * edge + random.in(-1, 1);
    }
  }
  return std::clamp(len, 0, most);
}

Row random_row(Random& random, const Limits& limits, int32_t tokens_left, int32_t most_query) {
  const int32_t capacity = limits.max_pages_per_row * limits.page_size;
  Row row;
  const int32_t kind = tokens_left == 0 ? 0 : random.in(0, 4);
  if (kind == 0) {
    row = Row{0,
              random.bits(),
              random.bits(),
              static_cast<uint32_t>(random.bits()),
              random.bits(),
              random.bits(),
              random.bits(),
              random.bits()};
    return row;
  }
  row.query_len = 1;
  if (kind == 2 && tokens_left > 1 && capacity > 2) {
    row.num_drafts = random.in(1, std::min({15, tokens_left - 1, capacity - 2}));
    row.query_len = 1 + row.num_drafts;
  } else if (kind > 2) {
    row.query_len =
        std::max(1, some_length(random, std::min({tokens_left, capacity, most_query}), limits));
  }
  const int32_t most_context = capacity - row.query_len;
  row.context_len = kind == 3 ? 0 : some_length(random, most_context, limits);
  if (row.num_drafts > 0) row.context_len = std::max(row.context_len, 1);
  row.flags = random.pick<uint32_t>({0, kRowEmit, kRowEmit | kRowSelfAdvance});
  if (row.context_len > 0 && random.one_in(2)) {
    row.initial_slot = random.in(1 << 20, 1 << 30);
    row.num_accepted = random.in(0, kMaxVerifyTokens);
  }
  // A slot without content may be named too.
  if (row.context_len == 0) row.initial_slot = random.in(0, 9);
  const int32_t needed = pages_for(row.context_len + row.query_len, limits.page_size);
  row.num_pages = random.in(needed, limits.max_pages_per_row);
  return row;
}

}  // namespace

void random_step(Random& random, const Limits& limits, const StepInput& input) {
  *input.num_rows = random.in(0, limits.max_rows);
  *input.padded_rows = random.in(*input.num_rows, limits.max_rows);
  *input.num_checkpoints = 0;
  int32_t tokens_left = limits.max_tokens;
  // Long prompts leave no room for other rows: only some steps have them.
  const int32_t most_query = random.pick({2, 5, 70, limits.max_tokens});
  for (int32_t r = 0; r < limits.max_rows; ++r) {
    Row& row = input.rows[r];
    row = random_row(random, limits, tokens_left, most_query);
    row.final_slot = row.query_len > 0 && random.one_in(2) ? 1 + r : 0;
    if (r < *input.num_rows) tokens_left -= row.query_len;
    int32_t* table = input.page_table + static_cast<int64_t>(r) * limits.max_pages_per_row;
    const int32_t filled = row.query_len == 0 ? 0 : row.num_pages;
    for (int32_t i = 0; i < limits.max_pages_per_row; ++i) {
      table[i] = i < filled ? random.in(1, INT32_MAX) : random.bits();
    }
  }
}

Limits random_limits(Random& random) {
  Limits limits;
  limits.max_rows = random.in(1, 24);
  limits.max_tokens = random.pick({1, 2, 7, 40, 150, 300});
  limits.page_size = random.pick({1, 8, 16, 32, 64, 128, 256, 1024});
  limits.max_pages_per_row =
      std::max(1, random.pick({1, 16, 200, 700}) / limits.page_size + random.in(0, 2));
  limits.num_workers = random.pick({1, 2, 3, 8, 31, 132});
  limits.split_tokens = random.pick({1, 16, 48, 64, 128});
  return limits;
}

std::string describe_step(const StepArena& arena) {
  const Limits& l = arena.limits();
  std::string text = "R " + std::to_string(l.max_rows) + " T " + std::to_string(l.max_tokens) +
                     " P " + std::to_string(l.max_pages_per_row) + " page " +
                     std::to_string(l.page_size) + " W " + std::to_string(l.num_workers) +
                     " split " + std::to_string(l.split_tokens) + ", rows (context+query/drafts):";
  for (int32_t r = 0; r < *arena.input().num_rows; ++r) {
    const Row& row = arena.input().rows[r];
    text += row.query_len == 0
                ? std::string(" pad")
                : " " + std::to_string(row.context_len) + "+" + std::to_string(row.query_len) +
                      "/" + std::to_string(row.num_drafts);
  }
  return text;
}

}  // namespace headrace::test
