// SPDX-License-Identifier: Apache-2.0
// The index functions over whole ranges of their arguments, each against a count.
#include "metadata/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace headrace::metadata {
namespace {

const std::vector<int32_t>& page_sizes() {
  static const std::vector<int32_t> sizes = [] {
    std::vector<int32_t> all = {1, 8};
    for (int32_t size = 16; size <= 1024; size += 16) all.push_back(size);
    return all;
  }();
  return sizes;
}

TEST(Index, PagesAndLastPageByCounting) {
  for (int32_t page_size : page_sizes()) {
    int32_t pages = 0;
    int32_t last = 0;
    for (int32_t len = 0; len <= 3 * page_size; ++len) {
      if (len > 0) {
        if (last == page_size || pages == 0) {
          ++pages;
          last = 0;
        }
        ++last;
      }
      ASSERT_EQ(pages_for(len, page_size), pages) << len << " in pages of " << page_size;
      ASSERT_EQ(last_page_len(len, page_size), last) << len << " in pages of " << page_size;
    }
  }
}

TEST(Index, LastPageOfOneTokenIsOne) {
  // (len % −page) + page gives 17 here in C++.
  EXPECT_EQ(last_page_len(1, 16), 1);
  EXPECT_EQ(last_page_len(16, 16), 16);
  EXPECT_EQ(last_page_len(17, 16), 1);
  EXPECT_EQ(last_page_len(0, 16), 0);
}

TEST(Index, LengthsAtTheEndOfTheRange) {
  EXPECT_EQ(ceil_div(INT32_MAX, 1), INT32_MAX);
  EXPECT_EQ(ceil_div(INT32_MAX, 2), 1 << 30);
  EXPECT_EQ(pages_for(INT32_MAX, 1024), 1 << 21);
  EXPECT_EQ(last_page_len(INT32_MAX, 1024), 1023);
  EXPECT_EQ(last_page_len(INT32_MAX, 1), 1);
}

TEST(Index, SlotMappingPassesThe32BitRange) {
  EXPECT_EQ(slot_mapping_of(1 << 21, 5, 1024), (int64_t{1} << 31) + 5);
  EXPECT_EQ(slot_mapping_of(INT32_MAX, 1023, 1024), int64_t{INT32_MAX} * 1024 + 1023);
  EXPECT_EQ(slot_mapping_of(INT32_MAX, INT32_MAX, 1), int64_t{INT32_MAX});
  for (int32_t page_size : page_sizes()) {
    for (int32_t position = 0; position < 3 * page_size; ++position) {
      int32_t inside = position;
      while (inside >= page_size) inside -= page_size;
      ASSERT_EQ(slot_mapping_of(7, position, page_size), int64_t{7} * page_size + inside);
    }
  }
}

TEST(Index, RowKinds) {
  const auto kind = [](int32_t query_len, int32_t context_len, int32_t num_drafts) {
    Row row;
    row.query_len = query_len;
    row.context_len = context_len;
    row.num_drafts = num_drafts;
    return row_kind(row);
  };
  EXPECT_EQ(kind(0, 0, 0), RowKind::kPadding);
  EXPECT_EQ(kind(0, 100, 3), RowKind::kPadding);
  EXPECT_EQ(kind(0, 100, -1), RowKind::kPadding);
  EXPECT_EQ(kind(1, 1, 0), RowKind::kDecode);
  EXPECT_EQ(kind(1, 0, 0), RowKind::kPrefill);  // a fresh prompt of one token
  EXPECT_EQ(kind(2, 0, 0), RowKind::kPrefill);
  EXPECT_EQ(kind(2, 9, 0), RowKind::kPrefill);  // a prompt's last two tokens
  EXPECT_EQ(kind(2, 9, 1), RowKind::kVerify);
  EXPECT_EQ(kind(16, 9, 15), RowKind::kVerify);
  EXPECT_EQ(kind(16, 9, 14), RowKind::kPrefill);
}

TEST(Index, PaddingRowsAreZeroWhateverTheyHold) {
  const Row garbage = {0, 5, 4, 3, 2, 1, 6, 7};
  const Row rows[] = {garbage, {3, 5, 0, 1, 2, 2, 2, 9}};
  const auto is_zero = [](const Row& row) {
    return row.query_len == 0 && row.context_len == 0 && row.num_drafts == 0 && row.flags == 0 &&
           row.initial_slot == 0 && row.final_slot == 0 && row.num_accepted == 0 &&
           row.num_pages == 0;
  };
  EXPECT_TRUE(is_zero(effective_row(rows, 0, 2)));
  EXPECT_FALSE(is_zero(effective_row(rows, 1, 2)));
  EXPECT_TRUE(is_zero(effective_row(rows, 1, 1)));  // past the rows in use
}

TEST(Index, ARowWithoutContextStartsFromZeros) {
  const Row fresh = {1, 0, 0, kRowEmit, 4, 4, 2, 1};
  EXPECT_EQ(effective_row(&fresh, 0, 1).initial_slot, kNullSlot);
  EXPECT_EQ(effective_row(&fresh, 0, 1).num_accepted, 0);
  EXPECT_EQ(effective_row(&fresh, 0, 1).final_slot, 4);
}

TEST(Index, ChunksCoverEachTokenOnceOnTheAbsoluteGrid) {
  for (int32_t context_len = 0; context_len <= 200; ++context_len) {
    for (int32_t query_len = 0; query_len <= 200; ++query_len) {
      int32_t position = context_len;
      const int32_t chunks = num_chunks(context_len, query_len);
      for (int32_t i = 0; i < chunks; ++i) {
        const int32_t end = chunk_end(context_len, query_len, i);
        ASSERT_EQ(chunk_begin(context_len, i), position);
        ASSERT_GT(end, position);
        ASSERT_EQ(position / kChunkTokens, (end - 1) / kChunkTokens) << "a chunk passes an edge";
        ASSERT_TRUE(end % kChunkTokens == 0 || i == chunks - 1);
        position = end;
      }
      ASSERT_EQ(position, context_len + query_len);
    }
  }
}

// Most chunks by trying every way to deal tokens out to rows, each row beginning where it hurts
// most: one token before an edge.
int32_t most_chunks(int32_t tokens, int32_t rows) {
  if (tokens == 0 || rows == 0) return 0;
  std::vector<int32_t> best(static_cast<size_t>(tokens) + 1, 0);
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t t = tokens; t > 0; --t) {
      for (int32_t own = 1; own <= t; ++own) {
        const int32_t with = num_chunks(kChunkTokens - 1, own) + best[static_cast<size_t>(t - own)];
        best[static_cast<size_t>(t)] = std::max(best[static_cast<size_t>(t)], with);
      }
    }
  }
  return best[static_cast<size_t>(tokens)];
}

TEST(Index, MaxChunksIsReachedAndNeverPassed) {
  for (int32_t rows : {1, 2, 3, 5}) {
    for (int32_t tokens = 1; tokens <= 220; tokens += tokens < 12 ? 1 : 13) {
      EXPECT_EQ(max_chunks_of(tokens, rows), most_chunks(tokens, rows))
          << tokens << " tokens, " << rows << " rows";
    }
  }
  EXPECT_EQ(max_chunks_of(INT32_MAX, 1), 2 + (INT32_MAX - 2) / 64);
  EXPECT_EQ(max_chunks_of(5, INT32_MAX), 5);
}

TEST(Index, OwnerSkipsRowsWithoutItems) {
  // Every pattern of rows with 0, 1 or 2 items, up to 7 rows.
  for (int32_t rows = 1; rows <= 7; ++rows) {
    int32_t patterns = 1;
    for (int32_t i = 0; i < rows; ++i) patterns *= 3;
    for (int32_t pattern = 0; pattern < patterns; ++pattern) {
      std::vector<int32_t> starts = {0};
      std::vector<int32_t> owners;
      for (int32_t r = 0, rest = pattern; r < rows; ++r, rest /= 3) {
        owners.insert(owners.end(), static_cast<size_t>(rest % 3), r);
        starts.push_back(static_cast<int32_t>(owners.size()));
      }
      for (size_t item = 0; item < owners.size(); ++item) {
        ASSERT_EQ(owner_of(starts.data(), rows, static_cast<int32_t>(item)), owners[item]);
      }
    }
  }
}

}  // namespace
}  // namespace headrace::metadata
