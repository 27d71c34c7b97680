// SPDX-License-Identifier: Apache-2.0
// Every order in which a few records and a few steps can meet: the host's two actions a record
// (write it; publish it, when there is room) and the device's three a step (apply and read the
// head; copy; publish) in all interleavings. After each step all rows are compared with a naive
// account of the rules (patch_test_account.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "metadata/patch_test_account.h"
#include "metadata/patch_test_world.h"

namespace headrace::metadata::test_model {
namespace {

class Orders {
 public:
  Orders(int num_steps, const PatchShape& shape, std::vector<Sent> all)
      : num_steps_(num_steps),
        shape_(shape),
        all_(std::move(all)),
        world_(shape,
               {.max_rows = kRows,
                .max_tokens = kRows + kSetTokens,
                .max_pages_per_row = kPages,
                .page_size = 1},
               100, 1) {}

  // Runs all orders; returns how many. A choice is made at every point where both can act; the next
  // order differs in the last choice that was not yet the host.
  int run() {
    std::vector<bool> host_first;
    int count = 0;
    for (bool more = true; more; ++count) {
      std::string mismatch = run_one(host_first);
      EXPECT_EQ(mismatch, "") << order_;
      if (!mismatch.empty()) return 0;
      while (!host_first.empty() && host_first.back()) host_first.pop_back();
      more = !host_first.empty();
      if (more) host_first.back() = true;
    }
    return count;
  }

  uint64_t late = 0, stale = 0, rejected = 0, stalled = 0, full = 0;

 private:
  std::string run_one(std::vector<bool>& host_first) {
    world_.reset();
    Script script(world_.params().ring, shape_, all_);
    Account account(all_);
    order_.clear();
    size_t choices = 0;
    const int num_device = 3 * num_steps_;
    for (int at = 0; at < num_device;) {
      bool host = script.can_act();
      if (!host && script.num_sent() < all_.size()) ++full;
      if (host) {
        if (choices == host_first.size()) host_first.push_back(false);
        host = host_first[choices++];
      }
      order_ += host ? 'h' : 'd';
      if (host) {
        script.act();
        continue;
      }
      std::string mismatch = act(at++, script, account);
      if (!mismatch.empty()) return mismatch;
    }
    late += account.late;
    stale += account.stale;
    rejected += account.rejected;
    stalled += account.stalled;
    const PatchControl& control = *world_.params().ring.control;
    if (control.num_late != account.late) return "late";
    if (control.num_stale != account.stale) return "stale";
    if (control.num_rejected != account.rejected) return "rejected";
    if (control.num_stalled != account.stalled) return "stalled";
    return "";
  }

  std::string act(int at, const Script& script, Account& account) {
    switch (at % 3) {
      case 0:
        while (world_.act() != World::Next::kBegin) {
        }
        account.step(static_cast<uint64_t>(at / 3) + 1);
        account.see(script.num_sent());
        return account.mismatch(world_);
      case 1:
        while (world_.next() != World::Next::kLink) world_.act();
        return "";
      default:
        while (world_.act() != World::Next::kEnd) {
        }
        account.publish();
        return world_.params().ring.control->consumed == account.consumed() ? "" : "consumed";
    }
  }

  int num_steps_;
  PatchShape shape_;
  std::vector<Sent> all_;
  World world_;
  std::string order_;
};

constexpr PatchShape kRoomy{
    .record_capacity = 8, .word_capacity = 64, .blob_words = 2, .max_set_tokens = kSetTokens};
constexpr PatchShape kTight{
    .record_capacity = 2, .word_capacity = 8, .blob_words = 2, .max_set_tokens = kSetTokens};

const Sent kJoin0{.kind = PatchKind::kJoin, .tokens = {5, 6}, .pages = {1, 2, 3}};

TEST(PatchOrder, AJoinAndAGrantThatMayComeTooLate) {
  Orders orders(5, kRoomy, {kJoin0, {.step = 4, .pages = {4}}});
  EXPECT_GT(orders.run(), 1000);
  EXPECT_GT(orders.late, 0u);
  EXPECT_GT(orders.stalled, 0u);
}

TEST(PatchOrder, LeaveAndJoinInTwoRecords) {
  Orders orders(
      5, kRoomy,
      {kJoin0,
       {.kind = PatchKind::kLeave, .step = 3},
       {.kind = PatchKind::kJoin, .generation = 3, .step = 3, .tokens = {7}, .pages = {5, 6}}});
  EXPECT_GT(orders.run(), 10000);
  EXPECT_GT(orders.late, 0u);
  EXPECT_EQ(orders.stale, 0u);
}

TEST(PatchOrder, LeaveAndJoinInOneRecordAndALeaveThatComesAfter) {
  Orders orders(5, kRoomy,
                {kJoin0,
                 {.kind = PatchKind::kJoin,
                  .generation = 2,
                  .step = 3,
                  .tokens = {7, 8, 9},
                  .pages = {5, 6, 7, 8}},
                 {.kind = PatchKind::kLeave, .generation = 1, .step = 3}});
  EXPECT_GT(orders.run(), 10000);
  EXPECT_GT(orders.stale, 0u);
}

TEST(PatchOrder, PiecesOfOnePrompt) {
  Orders orders(
      5, kRoomy,
      {{.kind = PatchKind::kJoin, .tokens = {5, 6}, .pages = {1, 2}, .flags = 0},
       {.kind = PatchKind::kSet,
        .step = 3,
        .tokens = {7},
        .pages = {3},
        .context_len = 2,
        .flags = 0},
       {.kind = PatchKind::kSet, .step = 4, .tokens = {8}, .pages = {4}, .context_len = 3}});
  EXPECT_GT(orders.run(), 10000);
  EXPECT_GT(orders.late, 0u);
}

TEST(PatchOrder, TwoRowsThatShareTheRoomForTokens) {
  Orders orders(5, kRoomy,
                {kJoin0,
                 {.kind = PatchKind::kJoin, .row = 1, .tokens = {7, 8}, .pages = {5, 6, 7}},
                 {.row = 1, .step = 3, .pages = {8}}});
  EXPECT_GT(orders.run(), 10000);
  EXPECT_GT(orders.late, 0u);
}

TEST(PatchOrder, ATightRing) {
  Orders orders(6, kTight,
                {kJoin0,
                 {.kind = PatchKind::kJoin, .row = 1, .tokens = {7}, .pages = {5, 6, 7}},
                 {.kind = PatchKind::kJoin,
                  .generation = 2,
                  .step = 3,
                  .tokens = {8, 9},
                  .pages = {9, 10, 11}}});
  EXPECT_GT(orders.run(), 1000);
  EXPECT_GT(orders.full, 0u);
}

TEST(PatchOrder, RecordsThatBreakARule) {
  Orders orders(5, kRoomy,
                {kJoin0,
                 {.step = 3, .pages = {4, 5}},
                 {.kind = PatchKind::kSet, .step = 3, .tokens = {7, 8}, .context_len = 2}});
  EXPECT_GT(orders.run(), 10000);
  EXPECT_GT(orders.rejected, 0u);
}

}  // namespace
}  // namespace headrace::metadata::test_model
