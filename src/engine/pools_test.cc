// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/check.h"
#include "engine/page_pool.h"
#include "engine/slot_pool.h"

namespace headrace::engine {
namespace {

TEST(EnginePoolTest, HandsOutEveryNumberOnceAndNeverNull) {
  IdPool pool(5);
  std::set<int32_t> seen;
  while (pool.num_free() > 0) seen.insert(pool.take());
  EXPECT_EQ(seen, (std::set<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(pool.num_used(), 5);
  EXPECT_THROW(pool.take(), InternalError);
}

TEST(EnginePoolTest, AnEmptyPoolHasNothing) {
  IdPool pool(0);
  EXPECT_EQ(pool.size(), 0);
  EXPECT_THROW(pool.take(), InternalError);
  EXPECT_THROW(pool.give_back(0), InternalError);
}

TEST(EnginePoolTest, RefusesWhatIsNotTaken) {
  IdPool pool(3);
  const int32_t id = pool.take();
  EXPECT_THROW(pool.give_back(0), InternalError);
  EXPECT_THROW(pool.give_back(4), InternalError);
  EXPECT_THROW(pool.give_back(-1), InternalError);
  pool.give_back(id);
  EXPECT_THROW(pool.give_back(id), InternalError) << "given back twice";
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(EnginePoolTest, PagesGrowAllOrNothing) {
  PagePool pool(4, 16);
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  ASSERT_TRUE(pool.grow(a, 3));
  EXPECT_FALSE(pool.grow(b, 2));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(pool.num_free(), 1);
  ASSERT_TRUE(pool.grow(b, 1));
  std::vector<int32_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<int32_t>{1, 2, 3, 4}));
}

TEST(EnginePoolTest, ReleasedPagesComeBackInTheSameOrder) {
  PagePool pool(8, 16);
  std::vector<int32_t> table;
  ASSERT_TRUE(pool.grow(table, 5));
  const std::vector<int32_t> first = table;
  pool.release(table);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(pool.num_used(), 0);
  ASSERT_TRUE(pool.grow(table, 5));
  EXPECT_EQ(table, first);
}

TEST(EnginePoolTest, FreedHooksSeeWhatIsFreed) {
  PagePool pages(4, 16);
  std::vector<int32_t> freed;
  pages.set_freed_hook([&](std::span<const int32_t> ids) {
    freed.insert(freed.end(), ids.begin(), ids.end());
    EXPECT_EQ(pages.num_free(), 1) << "the hook runs before the pages can be taken again";
  });
  std::vector<int32_t> table;
  ASSERT_TRUE(pages.grow(table, 3));
  const std::vector<int32_t> taken = table;
  pages.release(table);
  EXPECT_EQ(freed, taken);
  pages.release(table);
  EXPECT_EQ(freed.size(), 3u) << "an empty table frees nothing";

  SlotPool slots(2);
  std::vector<int32_t> freed_slots;
  slots.set_freed_hook([&](int32_t slot) { freed_slots.push_back(slot); });
  const int32_t slot = slots.take();
  slots.release(slot);
  EXPECT_EQ(freed_slots, std::vector<int32_t>{slot});
  EXPECT_EQ(slots.num_free(), 2);
}

}  // namespace
}  // namespace headrace::engine
