// SPDX-License-Identifier: Apache-2.0
// Batches in other engines' form, turned into steps: against a naive derivation, with sound and
// with broken rows, in both forms.
#include "metadata/import.h"

#include <gtest/gtest.h>

#include <vector>

#include "metadata/arena.h"
#include "tests/support/random_steps.h"
#include "tests/support/scale.h"

namespace headrace::metadata {
namespace {

using test::Random;

// What a test says of a row; pages and indptr follow.
struct Wanted {
  int32_t query_len = 1;
  int32_t seq_len = 0;
  std::vector<int32_t> pages;
};

struct Batch {
  std::vector<int32_t> query_indptr{0};
  std::vector<int32_t> page_indptr{0};
  std::vector<int32_t> page_indices;
  std::vector<int32_t> last_page_len;
  std::vector<int32_t> block_table;
  std::vector<int32_t> seq_lens;
};

constexpr int32_t kPageSize = 16;
constexpr int32_t kMaxPages = 6;
constexpr int32_t kNumPages = 50;
constexpr Limits kLimits{
    .max_rows = 8, .max_tokens = 100, .max_pages_per_row = kMaxPages, .page_size = kPageSize};

Batch batch_of(const std::vector<Wanted>& rows) {
  Batch batch;
  for (const Wanted& row : rows) {
    batch.query_indptr.push_back(batch.query_indptr.back() + row.query_len);
    batch.page_indices.insert(batch.page_indices.end(), row.pages.begin(), row.pages.end());
    batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
    batch.last_page_len.push_back(row.seq_len == 0 ? -99 : (row.seq_len - 1) % kPageSize + 1);
    batch.seq_lens.push_back(row.seq_len);
    std::vector<int32_t> table = row.pages;
    table.resize(kMaxPages, -5);  // must not be read
    batch.block_table.insert(batch.block_table.end(), table.begin(), table.end());
  }
  batch.page_indices.push_back(-5);
  return batch;
}

class Importer {
 public:
  Importer() : arena_(make_arena()), stream_(pool_), keyless_(kLimits.max_rows, 7) {}

  ImportParams params(const Batch& batch, bool table) {
    ImportParams params{.query_indptr = batch.query_indptr.data(),
                        .num_rows = static_cast<int32_t>(batch.seq_lens.size()),
                        .num_pages = kNumPages,
                        .max_decode_query_len = 4,
                        .limits = kLimits,
                        .input = arena_.input(),
                        .keyless = keyless_.data(),
                        .errors = &errors_};
    if (table) {
      params.block_table = batch.block_table.data();
      params.block_table_stride = kMaxPages;
      params.seq_lens = batch.seq_lens.data();
    } else {
      params.page_indptr = batch.page_indptr.data();
      params.page_indices = batch.page_indices.data();
      params.last_page_len = batch.last_page_len.data();
      params.num_page_indices = static_cast<int64_t>(batch.page_indices.size());
    }
    return params;
  }
  void run(const ImportParams& params) {
    errors_ = {};
    import_batch(stream_, params);
    build(stream_, arena_);
  }

  const StepView& view() const { return arena_.view(); }
  const ImportErrors& errors() const { return errors_; }
  const std::vector<uint8_t>& keyless() const { return keyless_; }

 private:
  static StepArena make_arena() {
    auto arena = StepArena::create(Device::kCpu, kLimits);
    EXPECT_TRUE(arena.ok());
    return std::move(arena).value();
  }
  ThreadPool pool_{1};
  StepArena arena_;
  CpuStream stream_;
  std::vector<uint8_t> keyless_;
  ImportErrors errors_;
};

std::vector<Wanted> random_rows(Random& random) {
  std::vector<Wanted> rows(static_cast<size_t>(random.in(0, 8)));
  for (Wanted& row : rows) {
    row.query_len = random.one_in(4) ? random.in(0, 12) : 1;
    if (!random.one_in(5)) row.seq_len = row.query_len + random.in(0, 60);
    for (int32_t i = 0; i < pages_for(row.seq_len, kPageSize); ++i) {
      row.pages.push_back(random.in(0, kNumPages - 1));
    }
  }
  return rows;
}

TEST(Import, RandomBatchesInBothForms) {
  Random random(3);
  Importer importer;
  for (int step = 0; step < test::scaled(4000); ++step) {
    const std::vector<Wanted> rows = random_rows(random);
    const Batch batch = batch_of(rows);
    importer.run(importer.params(batch, step % 2 == 0));
    const StepView& view = importer.view();
    ASSERT_EQ(importer.errors().broken_rows, 0);
    ASSERT_EQ(importer.errors().broken_batches, 0);
    int32_t token = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      const Wanted& row = rows[r];
      const bool keyless = row.query_len > 0 && row.seq_len == 0;
      ASSERT_EQ(importer.keyless()[r], keyless ? 1 : 0);
      ASSERT_EQ(view.query_start_i32[r], token);
      ASSERT_EQ(view.query_len[r], row.query_len);
      token += row.query_len;
      if (row.query_len == 0) {
        ASSERT_EQ(view.kind[r], RowKind::kPadding);
        continue;
      }
      ASSERT_EQ(view.seq_len[r], keyless ? row.query_len : row.seq_len);
      ASSERT_EQ(view.kind[r], row.query_len > 4    ? RowKind::kPrefill
                              : row.query_len == 1 ? RowKind::kDecode
                                                   : RowKind::kVerify);
      for (size_t i = 0; i < row.pages.size() && !keyless; ++i) {
        ASSERT_EQ(view.page_table[r * kMaxPages + i], row.pages[i]);
      }
      if (keyless) {
        ASSERT_EQ(view.page_table[r * kMaxPages], 0);
      }
    }
    ASSERT_EQ(view.counts->num_tokens, token);
    for (size_t r = rows.size(); r < 8; ++r) {
      ASSERT_EQ(view.kind[r], RowKind::kPadding);
      ASSERT_EQ(importer.keyless()[r], 0);
    }
  }
}

TEST(Import, ABrokenRowIsCountedAndKeepsItsTokens) {
  const std::vector<Wanted> sound = {{1, 20, {3, 4}}, {2, 40, {5, 6, 7}}, {1, 16, {8}}};
  struct Break {
    const char* name;
    void (*apply)(Batch&);
    bool lists;
  };
  for (const Break& broken :
       {Break{"page number", [](Batch& b) { b.page_indices[2] = kNumPages; }, true},
        Break{"negative page", [](Batch& b) { b.page_indices[3] = -1; }, true},
        Break{"last page", [](Batch& b) { b.last_page_len[1] = kPageSize + 1; }, true},
        Break{"empty last page", [](Batch& b) { b.last_page_len[1] = 0; }, true},
        Break{"too many pages",
              [](Batch& b) {
                b.page_indptr[1] = -9;
                b.page_indptr[0] = -9;
              },
              true},
        Break{"pages past the indices",
              [](Batch& b) {
                b.page_indptr[0] = INT32_MAX - 3;
                b.page_indptr[1] = INT32_MAX - 1;
              },
              true},
        Break{"fewer keys than queries",
              [](Batch& b) {
                b.page_indptr[1] = 4;
                b.last_page_len[1] = 1;
                b.last_page_len[0] = 4;
              },
              true},
        Break{"page number in the table", [](Batch& b) { b.block_table[kMaxPages + 1] = 77; },
              false},
        Break{"negative length", [](Batch& b) { b.seq_lens[1] = -1; }, false},
        Break{"length past the table", [](Batch& b) { b.seq_lens[1] = 1 << 30; }, false}}) {
    Importer importer;
    Batch batch = batch_of(sound);
    broken.apply(batch);
    importer.run(importer.params(batch, !broken.lists));
    const StepView& view = importer.view();
    EXPECT_GE(importer.errors().broken_rows, 1) << broken.name;
    EXPECT_EQ(importer.errors().broken_batches, 0) << broken.name;
    EXPECT_EQ(view.counts->num_tokens, 4) << broken.name;
    EXPECT_EQ(view.query_start_i32[2], 3) << broken.name;
    const auto row = static_cast<size_t>(importer.errors().last_broken_row);
    EXPECT_EQ(importer.keyless()[row], 1) << broken.name;
    EXPECT_EQ(view.page_table[row * kMaxPages], 0) << broken.name;
    EXPECT_EQ(importer.keyless()[2], 0) << broken.name;
    EXPECT_EQ(view.page_table[2 * kMaxPages], 8) << broken.name;
  }
}

TEST(Import, ABrokenIndptrLeavesNoRows) {
  const std::vector<Wanted> sound = {{1, 20, {3, 4}}, {2, 40, {5, 6, 7}}};
  for (const std::vector<int32_t>& indptr : std::vector<std::vector<int32_t>>{
           {1, 2, 4}, {0, 2, 1}, {0, 1, 101}, {0, -1, 2}, {0, 97, 98}}) {
    Importer importer;
    Batch batch = batch_of(sound);
    batch.query_indptr = indptr;
    importer.run(importer.params(batch, true));
    EXPECT_EQ(importer.errors().broken_batches, 1);
    EXPECT_EQ(importer.view().counts->num_tokens, 0);
  }
}

TEST(Import, RowsInUseAndOneTokenEach) {
  const std::vector<Wanted> rows = {{1, 20, {3, 4}}, {1, 0, {}}, {1, 16, {8}}};
  Importer importer;
  const Batch batch = batch_of(rows);
  ImportParams params = importer.params(batch, false);
  params.query_indptr = nullptr;
  for (const int32_t in_use : {0, 1, 2, 3, 9, -4}) {
    params.num_rows_in_use = &in_use;
    importer.run(params);
    EXPECT_EQ(importer.view().counts->num_tokens, std::min(3, std::max(0, in_use)));
    EXPECT_EQ(importer.errors().broken_rows, 0);
  }
}

TEST(Import, DecodeOnlyRefusesLongerRows) {
  Importer importer;
  const Batch batch = batch_of({{1, 20, {3, 4}}, {5, 40, {5, 6, 7}}});
  ImportParams params = importer.params(batch, false);
  params.decode_only = true;
  importer.run(params);
  EXPECT_EQ(importer.errors().broken_rows, 1);
  EXPECT_EQ(importer.errors().last_broken_row, 1);
  EXPECT_EQ(importer.keyless()[1], 1);
}

}  // namespace
}  // namespace headrace::metadata
