// SPDX-License-Identifier: Apache-2.0
// The patch ring with host and device interleaved at random: the host's actions (look for room,
// write the payload, the record, the head, look what is done with) and the device's (a row, a
// record, four words, publish) in any order that two machines could bring about. What the sequences
// say is compared with what their tokens make them say; who has which page and slot is looked at in
// every step. Then the same with mistakes built in, each of which must be noticed.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "metadata/patch_test_host.h"
#include "metadata/patch_test_world.h"
#include "tests/support/scale.h"

namespace headrace::metadata::test_model {
namespace {

struct Case {
  PatchShape shape;
  Limits limits;
  TestHostOptions host;
  WorldMistakes mistakes = {};
  int num_acts = 6000;
};

Limits limits_of(int32_t rows, int32_t set_tokens, int32_t pages, int32_t page_size) {
  return {.max_rows = rows,
          .max_tokens = rows + set_tokens,
          .max_pages_per_row = pages,
          .page_size = page_size};
}

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int32_t> of) {
    return of.begin()[random() % of.size()];
  };
  const int32_t rows = pick({1, 2, 3, 5});
  const int32_t page_size = pick({1, 8});
  const int32_t pages = page_size == 1 ? 40 : 6;
  const int32_t set_tokens = pick({1, 3, 7, 40});
  // The largest record: a piece of set_tokens, its pages, one more, and the blob.
  const int32_t words = pick({64, 64, 128, 1024});
  Case c{.shape = {.record_capacity = pick({1, 2, 4, 32}),
                   .word_capacity = words,
                   .blob_words = kBlobWords,
                   .max_set_tokens = set_tokens},
         .limits = limits_of(rows, set_tokens, pages, page_size),
         .host = {.seed = seed,
                  .num_pages = rows * pages * pick({2, 4}) / 4 + pages,
                  .num_slots = rows + pick({1, 3}),
                  .max_prompt = pick({3, 25}),
                  .max_new = pick({2, 15})}};
  return c;
}

// Empty when in this step every row that runs has pages and slots of its own, given to it and to
// nobody else.
std::string owners_mismatch(const World& world, const TestHost& host) {
  std::set<int32_t> pages;
  std::set<int32_t> slots;
  const StepInput& input = world.arena().input();
  for (int32_t r = 0; r < world.view().limits.max_rows; ++r) {
    if (world.view().query_len[r] == 0) continue;
    const TestHost::Sequence* sequence = host.find(r, world.params().queue.generation[r]);
    if (sequence == nullptr) return "nobody has row " + std::to_string(r);
    if (sequence->freed) return "a sequence runs whose pages were given away";
    const auto num_pages = static_cast<size_t>(input.rows[r].num_pages);
    if (num_pages > sequence->pages.size()) return "more pages than were granted";
    for (size_t i = 0; i < num_pages; ++i) {
      const int32_t page =
          input.page_table[r * world.view().limits.max_pages_per_row + static_cast<int32_t>(i)];
      if (page != sequence->pages[i]) return "a page that was not granted";
      if (!pages.insert(page).second) return "two rows have one page";
    }
    if (world.view().final_slot[r] != sequence->slot || !slots.insert(sequence->slot).second) {
      return "two rows have one slot";
    }
  }
  return "";
}

struct Seen {
  uint64_t records = 0, late = 0, stalled = 0;
  int full = 0, finished = 0;
  size_t tokens = 0;
};

// Empty, or what went wrong.
std::string run(const Case& c, Seen* seen = nullptr) {
  World world(c.shape, c.limits, c.host.num_pages, c.host.num_slots, c.host.seed,
              c.host.seed % 2 == 0, c.mistakes);
  TestHost host(world.params().ring, c.limits, c.shape, world.progress.data(), c.host);
  std::mt19937 random(c.host.seed + 99);
  uint32_t host_share = 128;  // of 256
  for (int i = 0; i < c.num_acts; ++i) {
    // Now and then one of the two stands still, or nearly.
    if (random() % 64 == 0) host_share = random() % 3 == 0 ? random() % 257 : 40 + random() % 176;
    if (random() % 256 < host_share) {
      host.act();
    } else if (world.act() == World::Next::kPlace) {
      std::string mismatch = owners_mismatch(world, host);
      if (!mismatch.empty()) return mismatch;
      if (world.view().counts->num_tokens > c.limits.max_tokens) return "too many tokens";
    }
  }
  if (!host.error().empty()) return host.error();
  // In peace everything that was sent is applied.
  while (!host.idle()) host.act();
  for (int i = 0; i < 40 && host.writer().num_consumed() != host.writer().num_sent(); ++i) {
    while (world.act() != World::Next::kEnd) {
    }
  }
  if (host.writer().num_consumed() != host.writer().num_sent()) return "a record is never applied";
  if (host.writer().num_stale() + host.writer().num_rejected() != 0) return "a record was refused";
  std::string mismatch = check_emitted(host, world.emitted);
  if (!mismatch.empty()) return mismatch;
  if (seen != nullptr) {
    seen->records += host.writer().num_sent();
    seen->late += host.writer().num_late();
    seen->stalled += host.writer().num_stalled();
    seen->full += host.num_full();
    seen->finished += host.num_finished();
    seen->tokens += world.emitted.size();
  }
  return "";
}

TEST(PatchModel, SequencesSayWhatTheyMustInEveryOrderOfEvents) {
  Seen seen;
  for (int seed = 1; seed <= test::scaled(400); ++seed) {
    ASSERT_EQ(run(random_case(static_cast<uint32_t>(seed)), &seen), "") << "seed " << seed;
  }
  std::printf(
      "%llu records, %llu late, %d times full, %llu row-steps without pages, %zu tokens, "
      "%d sequences to their end\n",
      static_cast<unsigned long long>(seen.records), static_cast<unsigned long long>(seen.late),
      seen.full, static_cast<unsigned long long>(seen.stalled), seen.tokens, seen.finished);
  EXPECT_GT(seen.records, static_cast<uint64_t>(test::scaled(10000)));
  EXPECT_GT(seen.late, static_cast<uint64_t>(test::scaled(1000)));
  EXPECT_GT(seen.stalled, static_cast<uint64_t>(test::scaled(1000)));
  EXPECT_GT(seen.full, test::scaled(1000));
  EXPECT_GT(seen.finished, test::scaled(500));
}

TEST(PatchModel, WhatTheModelSaysHangsOnEveryTokenAndTheSalt) {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  std::set<std::vector<int32_t>> said = {expected_tokens(prompt, 7, 3),
                                         expected_tokens(prompt, 8, 3)};
  for (size_t i = 0; i < prompt.size(); ++i) {
    std::vector<int32_t> other = prompt;
    ++other[i];
    said.insert(expected_tokens(other, 7, 3));
  }
  EXPECT_EQ(said.size(), prompt.size() + 2);
  const std::vector<int32_t> tokens = expected_tokens(prompt, 7, 50);
  EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()).size(), tokens.size());
}

// The CPU's memory order instead of the test's. (The thread sanitizer has something to look at.)
TEST(PatchModel, HostAndDeviceInTwoThreads) {
  Case c = random_case(3);
  World world(c.shape, c.limits, c.host.num_pages, c.host.num_slots);
  TestHost host(world.params().ring, c.limits, c.shape, world.progress.data(), c.host);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load()) host.act();
  });
  for (int step = 0; step < test::scaled(20000); ++step) {
    while (world.act() != World::Next::kEnd) {
    }
  }
  stop = true;
  writer.join();
  EXPECT_EQ(host.error(), "");
  EXPECT_EQ(check_emitted(host, world.emitted), "");
}

// How many of the cases notice the mistake.
int noticed(void (*make)(Case&)) {
  int count = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Case c = random_case(seed);
    make(c);
    count += run(c).empty() ? 0 : 1;
  }
  return count;
}

TEST(PatchModel, MistakesAreNoticed) {
  EXPECT_GT(noticed([](Case& c) { c.host.frees_at_once = true; }), 0);
  EXPECT_GT(noticed([](Case& c) { c.host.publishes_first = true; }), 0);
  EXPECT_GT(noticed([](Case& c) { c.mistakes.consumes_what_it_fetched = true; }), 0);
  EXPECT_GT(noticed([](Case& c) { c.mistakes.forgets_payload = true; }), 0);
}

}  // namespace
}  // namespace headrace::metadata::test_model
