// SPDX-License-Identifier: Apache-2.0
// The patch ring rule by rule: what each kind of record does to a row, what is refused, and the
// ends of the ring. Host and device take turns here; patch_model_test.cc has them interleaved.
#include "metadata/patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "metadata/arena.h"
#include "metadata/patch_rules.h"
#include "metadata/patch_writer.h"

namespace headrace::metadata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kRunning = kRowEmit | kRowSelfAdvance;
constexpr int32_t kRows = 4;
constexpr int32_t kTokens = 24;
constexpr int32_t kPages = 5;
constexpr int32_t kPageSize = 8;

std::vector<int32_t> iota(int32_t count, int32_t from) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

template <typename T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// Steps of a model that always samples 1000 · step + row.
struct Loop {
  explicit Loop(PatchShape shape = {.record_capacity = 8,
                                    .word_capacity = 64,
                                    .blob_words = 2,
                                    .max_set_tokens = 12})
      : limits{.max_rows = kRows,
               .max_tokens = kTokens,
               .max_pages_per_row = kPages,
               .page_size = kPageSize},
        arena(value_of(StepArena::create(Device::kCpu, limits))),
        queue(value_of(PatchArena::create(Device::kCpu, limits, shape))),
        memory(value_of(Buffer::allocate_zeroed(Device::kCpu, patch_ring_bytes(shape)))),
        ring(patch_ring_at(memory.data(), shape)),
        writer(ring, limits, shape),
        patch(queue.params(ring)) {
    *arena.input().num_rows = kRows;
    *arena.input().padded_rows = kRows;
    build(stream, arena);
  }

  void begin_step() {
    ++step;
    AdvanceParams advance{arena.input(), arena.view(),      sampled.data(), nullptr,
                          nullptr,       next_token.data(), stalled.data(), ended.data()};
    advance_and_apply(stream, advance, patch);
    build(stream, arena);
    place_tokens(stream,
                 with_patches({arena.view(), next_token.data(), nullptr, 0, ids.data()}, patch));
    EXPECT_TRUE(check_rows(arena).ok()) << check_rows(arena).message();
    for (int32_t r = 0; r < kRows; ++r) {
      if (view().logit_start[r + 1] > view().logit_start[r]) {
        sampled[static_cast<size_t>(view().logit_start[r])] = 1000 * step + r;
      }
    }
  }
  void fetch() { fetch_patches(stream, patch); }
  // Fetches what was sent and begins the step in which it is due.
  void run_step() {
    begin_step();
    fetch();
  }
  PatchTicket send(const Patch& p) { return value_of(writer.send(p)); }
  // A sequence whose prompt is `tokens` in one piece.
  Patch join(int32_t row, const std::vector<int32_t>& tokens, const std::vector<int32_t>& pages) {
    return {.kind = PatchKind::kJoin,
            .row = row,
            .fields = {.flags = kRunning, .final_slot = row + 1},
            .tokens = tokens,
            .pages = pages};
  }
  const StepView& view() const { return arena.view(); }
  std::vector<int32_t> tokens_of(int32_t r) const {
    const int32_t begin = view().query_start_i32[r];
    return {ids.begin() + begin, ids.begin() + view().query_start_i32[r + 1]};
  }

  ThreadPool pool{1};
  CpuStream stream{pool};
  Limits limits;
  StepArena arena;
  PatchArena queue;
  Buffer memory;
  PatchRing ring;
  PatchWriter writer;
  PatchParams patch;
  int32_t step = 0;
  std::vector<int32_t> sampled = std::vector<int32_t>(kTokens, -5);
  std::vector<int32_t> next_token = std::vector<int32_t>(kRows, -5);
  std::vector<int32_t> stalled = std::vector<int32_t>(kRows, 0);
  std::vector<uint8_t> ended = std::vector<uint8_t>(kRows, 0);
  std::vector<int32_t> ids = std::vector<int32_t>(kTokens, -5);
};

TEST(Patch, StepsWithoutRecordsAreEmpty) {
  Loop loop;
  for (int i = 0; i < 3; ++i) {
    loop.run_step();
    EXPECT_EQ(loop.view().counts->num_padding_rows, kRows);
    EXPECT_EQ(loop.writer.steps_started(), static_cast<uint64_t>(i + 1));
  }
}

TEST(Patch, ARowJoinsAtItsStepAndLeavesAtItsStep) {
  Loop loop;
  const std::vector<int32_t> prompt = {7, 8, 9};
  const std::vector<int32_t> pages = {11, 12};
  const PatchTicket joined = loop.send(loop.join(2, prompt, pages));
  EXPECT_EQ(joined.step, 2u);
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[2], 0);
  EXPECT_FALSE(loop.writer.is_applied(joined));
  loop.run_step();
  EXPECT_TRUE(loop.writer.is_applied(joined));
  EXPECT_EQ(loop.view().kind[2], RowKind::kPrefill);
  EXPECT_THAT(loop.tokens_of(2), ElementsAre(7, 8, 9));
  EXPECT_EQ(loop.view().slot_mapping[2], 11 * kPageSize + 2);
  EXPECT_EQ(loop.view().final_slot[2], 3);
  const PatchTicket left = loop.send({.kind = PatchKind::kLeave, .row = 2, .apply_at_step = 5});
  EXPECT_EQ(left.step, 5u);
  for (int32_t step = 3; step < 5; ++step) {
    loop.run_step();
    EXPECT_THAT(loop.tokens_of(2), ElementsAre(1000 * (step - 1) + 2));
    EXPECT_EQ(loop.view().context_len[2], step);
  }
  loop.begin_step();
  EXPECT_EQ(loop.view().counts->num_padding_rows, kRows);
  EXPECT_FALSE(loop.writer.is_applied(left)) << "not before the fetch says so";
  loop.fetch();
  EXPECT_TRUE(loop.writer.is_applied(left));
  EXPECT_EQ(loop.writer.num_late() + loop.writer.num_stale() + loop.writer.num_rejected(), 0u);
}

TEST(Patch, APromptInPiecesIsOneRecordAPiece) {
  Loop loop;
  const std::vector<int32_t> prompt = iota(10, 100);
  const std::vector<int32_t> pages = {1, 2};
  const std::vector<int32_t> more = {3};
  const std::span<const int32_t> all(prompt);
  loop.run_step();
  loop.send({.kind = PatchKind::kJoin,
             .row = 0,
             .fields = {.final_slot = 1},
             .tokens = all.first(6),
             .pages = pages});
  loop.send({.kind = PatchKind::kSet,
             .row = 0,
             .apply_at_step = 5,
             .fields = {.context_len = 6, .flags = kRunning, .initial_slot = 1, .final_slot = 1},
             .tokens = all.last(4),
             .pages = more});
  loop.run_step();
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(100, 101, 102, 103, 104, 105));
  EXPECT_EQ(loop.view().counts->num_logit_tokens, 0);
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[0], 0) << "a piece lasts one step";
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(106, 107, 108, 109));
  EXPECT_EQ(loop.view().context_len[0], 6);
  EXPECT_EQ(loop.arena.input().page_table[2], 3);
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(5000));
}

TEST(Patch, PiecesThatComeLateAreTakenOneAStep) {
  Loop loop;
  const std::vector<int32_t> prompt = iota(12, 0);
  const std::vector<int32_t> pages = {1, 2, 3};
  const std::span<const int32_t> all(prompt);
  for (int32_t i = 0; i < 3; ++i) {
    Patch piece{.kind = i == 0 ? PatchKind::kJoin : PatchKind::kSet,
                .row = 1,
                .fields = {.context_len = 4 * i, .final_slot = 1},
                .tokens = all.subspan(4 * static_cast<size_t>(i), 4)};
    if (i == 0) piece.pages = pages;
    EXPECT_EQ(loop.send(piece).step, 2u);
  }
  loop.run_step();
  for (int32_t i = 0; i < 3; ++i) {
    loop.run_step();
    EXPECT_EQ(loop.tokens_of(1), iota(4, 4 * i));
  }
  EXPECT_EQ(loop.writer.num_late(), 2u);
}

TEST(Patch, RecordsThatWouldBringTooManyTokensWaitForAStep) {
  Loop loop;  // 12 tokens a step
  for (int32_t r = 0; r < 3; ++r) {
    const std::vector<int32_t> page = {1 + 2 * r, 2 + 2 * r};
    loop.send(loop.join(r, iota(6, 10 * r), page));
  }
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.view().counts->num_tokens, 12);
  EXPECT_EQ(loop.view().query_len[2], 0);
  loop.run_step();
  EXPECT_EQ(loop.view().counts->num_tokens, 8);
  EXPECT_EQ(loop.tokens_of(2), iota(6, 20));
  EXPECT_EQ(loop.writer.num_late(), 1u);
}

TEST(Patch, ARecordAfterItsStepIsAppliedAtOnceAndCounted) {
  Loop loop;
  const std::vector<int32_t> prompt = {1};
  const std::vector<int32_t> pages = {1};
  loop.run_step();
  EXPECT_EQ(loop.writer.next_step(), 3u);
  ASSERT_TRUE(loop.writer.reserve(loop.join(0, prompt, pages)).ok());
  loop.writer.write_payload();
  loop.writer.write_record();
  loop.run_step();
  loop.run_step();  // it names this one
  const PatchTicket ticket = loop.writer.publish();
  EXPECT_EQ(ticket.step, 3u);
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[0], 0);
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[0], 1);
  EXPECT_EQ(loop.writer.num_late(), 1u);
}

TEST(Patch, AJoinPutsANewSequenceInARowThatRuns) {
  Loop loop;
  const std::vector<int32_t> first = {1, 2, 3, 4, 5};
  const std::vector<int32_t> pages = {1, 2};
  const std::vector<int32_t> second = {6, 7};
  const std::vector<int32_t> other_pages = {3};
  loop.send(loop.join(0, first, pages));
  loop.run_step();
  loop.run_step();
  const PatchTicket change = loop.send(loop.join(0, second, other_pages));
  EXPECT_EQ(change.step, 4u);
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(2000));
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(6, 7));
  EXPECT_EQ(loop.view().context_len[0], 0);
  EXPECT_EQ(loop.arena.input().rows[0].num_pages, 1);
  EXPECT_TRUE(loop.writer.is_applied(change));
  loop.run_step();
  EXPECT_THAT(loop.tokens_of(0), ElementsAre(4000));
}

TEST(Patch, ARowThatWaitsForPagesGoesOnInTheStepThatGrantsThem) {
  Loop loop;
  const std::vector<int32_t> prompt = iota(kPageSize, 1);
  const std::vector<int32_t> page = {1};
  const std::vector<int32_t> another = {9};
  const std::vector<int32_t> blob = {70, 71};
  loop.send(loop.join(3, prompt, page));
  loop.run_step();
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.stalled[3], 1);
  EXPECT_EQ(loop.view().query_len[3], 0);
  loop.send({.kind = PatchKind::kGrant, .row = 3, .pages = another, .blob = blob});
  loop.run_step();
  EXPECT_EQ(loop.writer.num_stalled(), 2u);
  loop.run_step();
  EXPECT_EQ(loop.stalled[3], 0);
  EXPECT_THAT(loop.tokens_of(3), ElementsAre(2003));
  EXPECT_EQ(loop.view().slot_mapping[0], 9 * kPageSize);
  EXPECT_EQ(loop.queue.queue().blobs[2 * 3], 70);
  EXPECT_EQ(loop.queue.queue().blobs[2 * 3 + 1], 71);
}

TEST(Patch, ARowThatWaitsCanLeave) {
  Loop loop;
  const std::vector<int32_t> prompt = iota(kPageSize, 1);
  const std::vector<int32_t> page = {1};
  loop.send(loop.join(0, prompt, page));
  for (int i = 0; i < 3; ++i) loop.run_step();
  EXPECT_EQ(loop.stalled[0], 1);
  loop.send({.kind = PatchKind::kLeave, .row = 0});
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.stalled[0], 0);
  loop.send(loop.join(0, prompt, page));
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[0], kPageSize);
}

TEST(Patch, ARowEndsByItself) {
  Loop loop;
  const std::vector<int32_t> prompt = {1, 2};
  const std::vector<int32_t> pages = {1, 2};
  loop.send(loop.join(0, prompt, pages));
  for (int i = 0; i < 4; ++i) loop.run_step();
  loop.ended[0] = 1;
  for (int i = 0; i < 2; ++i) {
    loop.run_step();
    EXPECT_EQ(loop.view().counts->num_padding_rows, kRows);
    EXPECT_EQ(loop.next_token[0], 4000) << "what it said last";
  }
  const PatchTicket left = loop.send({.kind = PatchKind::kLeave, .row = 0});
  loop.run_step();
  loop.run_step();
  EXPECT_TRUE(loop.writer.is_applied(left));
  EXPECT_EQ(loop.writer.num_stale(), 0u);
}

// Records that no PatchWriter sends.
void publish_raw(Loop& loop, PatchRecord record) {
  const uint64_t number = loop.ring.control->head + 1;
  loop.ring.records[patch_slot(loop.patch.shape, number)] = record;
  store_release_system(&loop.ring.control->head, number);
}

TEST(Patch, ARecordOfAnotherSequenceIsIgnored) {
  Loop loop;
  const std::vector<int32_t> prompt = {1, 2};
  const std::vector<int32_t> pages = {1, 2};
  loop.send(loop.join(0, prompt, pages));  // generation 1
  loop.run_step();
  loop.run_step();
  const Row row = loop.arena.input().rows[0];
  for (uint32_t generation : {0u, 2u}) {
    publish_raw(loop, {.word_begin = 4,
                       .token_end = 2,
                       .previous = loop.ring.control->head,
                       .generation = generation,
                       .kind = PatchKind::kLeave});
  }
  for (uint32_t generation : {0u, 1u, 0x80000001u}) {
    publish_raw(loop, {.word_begin = 4,
                       .token_end = 2,
                       .previous = loop.ring.control->head,
                       .generation = generation,
                       .kind = PatchKind::kJoin,
                       .fields = {.query_len = 1, .num_pages = 1}});
  }
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.writer.num_stale(), 5u);
  EXPECT_EQ(loop.arena.input().rows[0].context_len, row.context_len + 3);
  EXPECT_EQ(loop.arena.input().rows[0].num_pages, 2);
  EXPECT_EQ(loop.ring.control->consumed, 6u);
}

TEST(Patch, WhatBreaksARuleIsNotAppliedByHalf) {
  Loop loop;
  const std::vector<int32_t> prompt = {1, 2};
  const std::vector<int32_t> pages = {1, 2};
  loop.send(loop.join(1, prompt, pages));
  loop.run_step();
  loop.run_step();
  const auto bad = [&](PatchRecord record) {
    record.word_begin = 4;
    record.token_end = 2;
    record.previous = loop.ring.control->head;
    publish_raw(loop, record);
  };
  const auto set = [](Row fields) {
    return PatchRecord{.row = 1, .generation = 1, .kind = PatchKind::kSet, .fields = fields};
  };
  bad({.row = 1, .generation = 1, .fields = {.num_pages = kPages - 1}});
  bad({.row = 1, .generation = 1, .num_blob_words = 1, .fields = {.num_pages = 1}});
  bad(set({.query_len = 0}));
  bad(set({.query_len = 13, .num_pages = 2}));
  bad(set({.query_len = 2, .context_len = 15}));
  bad(set({.query_len = 2, .context_len = INT32_MAX}));
  bad(set({.query_len = 2, .context_len = -1}));
  bad(set({.query_len = 2, .num_drafts = 2}));
  for (int i = 0; i < 2; ++i) loop.run_step();
  EXPECT_EQ(loop.writer.num_rejected(), 8u);
  EXPECT_EQ(loop.arena.input().rows[1].num_pages, 2);
  EXPECT_EQ(loop.view().context_len[1], 3);
  // Rows that there are not.
  publish_raw(loop, {.word_begin = 4, .token_end = 2, .row = kRows});
  publish_raw(loop, {.word_begin = 4, .token_end = 2, .row = -1});
  loop.run_step();
  EXPECT_EQ(loop.writer.num_rejected(), 10u);
  EXPECT_EQ(loop.ring.control->consumed, 11u);
}

TEST(Patch, PagesAreBoundedByTheTable) {
  Loop loop;
  const std::vector<int32_t> prompt = {1};
  const std::vector<int32_t> some = {1, 2, 3};
  const std::vector<int32_t> rest = {4, 5};
  const std::vector<int32_t> one = {6};
  loop.send(loop.join(3, prompt, some));
  EXPECT_EQ(loop.writer.num_pages(3), 3);
  loop.send({.kind = PatchKind::kGrant, .row = 3, .pages = rest});
  EXPECT_EQ(loop.writer.send({.kind = PatchKind::kGrant, .row = 3, .pages = one}).status().code(),
            StatusCode::kInvalidArgument);
  for (int i = 0; i < 2; ++i) loop.run_step();
  EXPECT_EQ(loop.arena.input().rows[3].num_pages, kPages);
  const int32_t* table = loop.arena.input().page_table + 3 * kPages;
  EXPECT_THAT(std::vector<int32_t>(table, table + kPages), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Patch, TheWriterRefusesWhatTheDeviceWould) {
  Loop loop;
  const std::vector<int32_t> tokens = iota(13, 0);
  const std::vector<int32_t> pages = iota(5, 1);
  const std::vector<int32_t> blob = {1};
  const std::span<const int32_t> some(tokens);
  const auto refused = [&](const Patch& patch) {
    const Status status = loop.writer.send(patch).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(refused(loop.join(4, tokens, pages)), HasSubstr("row 4"));
  EXPECT_THAT(refused(loop.join(-1, tokens, pages)), HasSubstr("row -1"));
  EXPECT_THAT(refused(loop.join(0, tokens, pages)), HasSubstr("at most 12 tokens"));
  EXPECT_THAT(refused(loop.join(0, {}, pages)), HasSubstr("0 tokens"));
  EXPECT_THAT(refused(loop.join(0, iota(9, 1), {1})), HasSubstr("1 pages"));
  EXPECT_THAT(refused({.kind = PatchKind::kGrant, .row = 1, .pages = pages}),
              HasSubstr("nobody has"));
  EXPECT_THAT(refused({.kind = PatchKind::kLeave, .row = 1}), HasSubstr("nobody has"));
  loop.send(loop.join(1, {1}, {1}));
  EXPECT_THAT(refused({.kind = PatchKind::kGrant, .row = 1, .blob = blob}), HasSubstr("blob"));
  EXPECT_THAT(refused({.kind = PatchKind::kGrant, .row = 1, .tokens = some.first(1)}),
              HasSubstr("1 tokens"));
  EXPECT_THAT(refused({.kind = PatchKind::kLeave, .row = 1, .pages = pages}), HasSubstr("leaves"));
  EXPECT_EQ(loop.ring.control->head, 1u) << "nothing of them was written";
}

TEST(Patch, ARingFullOfRecordsTakesNoMoreUntilSomeAreConsumed) {
  Loop loop;
  loop.send(loop.join(0, {1}, {1}));
  for (int i = 0; i < 7; ++i) loop.send({.kind = PatchKind::kGrant, .row = 0});
  for (int i = 0; i < 2; ++i) {
    const Status full = loop.writer.send({.kind = PatchKind::kGrant, .row = 0}).status();
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(loop.ring.control->head, 8u);
    if (i == 0) loop.run_step();  // fetched is not yet consumed
  }
  loop.run_step();
  for (int i = 0; i < 8; ++i) loop.send({.kind = PatchKind::kGrant, .row = 0});
  EXPECT_FALSE(loop.writer.send({.kind = PatchKind::kGrant, .row = 0}).ok());
}

TEST(Patch, RecordsOfEverySizeGoRoundTheRing) {
  // 16 words: the largest record fills the ring.
  for (int32_t words = 2; words <= 16; ++words) {
    Loop loop({.record_capacity = 2, .word_capacity = 16, .blob_words = 4, .max_set_tokens = 12});
    int32_t sent = 0;
    int32_t refused = 0;
    for (int32_t i = 0; i < 60; ++i) {
      const int32_t num_pages = words >= 9 ? 4 : 1;
      const bool blob = words >= 14;
      const int32_t num_tokens = words - num_pages - (blob ? 4 : 0);
      const std::vector<int32_t> tokens = iota(num_tokens, 100 * i);
      const std::vector<int32_t> pages = iota(num_pages, 1 + 5 * i);
      const std::vector<int32_t> blob_words = iota(blob ? 4 : 0, 7 * i);
      Patch join = loop.join(0, tokens, pages);
      join.blob = blob_words;
      while (!loop.writer.send(join).ok()) {
        ++refused;
        loop.run_step();
        ASSERT_LT(refused, 1000);
      }
      ++sent;
      for (int k = 0; k < 3; ++k) {
        loop.run_step();
        if (loop.view().context_len[0] > 0 || loop.view().query_len[0] == 0) continue;
        EXPECT_EQ(loop.tokens_of(0), tokens);
        EXPECT_EQ(loop.view().page_table[0], 1 + 5 * i);
        if (blob) {
          EXPECT_EQ(loop.queue.queue().blobs[3], 7 * i + 3);
        }
      }
    }
    EXPECT_EQ(loop.writer.num_rejected() + loop.writer.num_stale(), 0u);
    EXPECT_EQ(loop.ring.control->consumed, static_cast<uint64_t>(sent));
  }
}

TEST(Patch, ARecordLargerThanTheRingIsSaidToBe) {
  Loop loop({.record_capacity = 2, .word_capacity = 4, .blob_words = 0, .max_set_tokens = 12});
  EXPECT_THAT(loop.writer.send(loop.join(0, {1, 2, 3}, {1, 2})).status().message(),
              HasSubstr("in pieces"));
  EXPECT_TRUE(loop.writer.send(loop.join(0, {1, 2, 3}, {1})).ok());
}

TEST(Patch, StepsAreNamedInOrder) {
  Loop loop;
  EXPECT_EQ(loop.send(loop.join(0, {1}, {1})).step, 2u);
  const std::vector<int32_t> one = {1};
  const std::vector<int32_t> two = {2};
  Patch late = loop.join(1, one, two);
  late.apply_at_step = 7;
  EXPECT_EQ(loop.send(late).step, 7u);
  EXPECT_EQ(loop.send(loop.join(2, {1}, {3})).step, 7u);
  loop.run_step();
  loop.run_step();
  EXPECT_EQ(loop.view().query_len[0], 1);
  EXPECT_EQ(loop.view().query_len[2], 0);
}

TEST(Patch, ShapesThatMakeNoSenseAreRefused) {
  const Limits limits{.max_rows = 4, .max_tokens = 8};
  const auto message = [&](const PatchShape& shape) {
    return PatchArena::create(Device::kCpu, limits, shape).status().message();
  };
  EXPECT_THAT(message({.record_capacity = 3}), HasSubstr("record_capacity 3"));
  EXPECT_THAT(message({.word_capacity = 2}), HasSubstr("word_capacity 2"));
  EXPECT_THAT(message({.blob_words = -1}), HasSubstr("blob_words -1"));
  EXPECT_THAT(message({.max_set_tokens = 5}), HasSubstr("max_set_tokens 5"));
  EXPECT_EQ(message({.max_set_tokens = 4}), "");
}

TEST(Patch, PagesAreGrantedAhead) {
  EXPECT_EQ(pages_to_grant(0, 0, 16), 1);
  EXPECT_EQ(pages_to_grant(14, 0, 16), 1);
  EXPECT_EQ(pages_to_grant(15, 0, 16), 2);
  EXPECT_EQ(pages_to_grant(8, 3, 16), 1);
  EXPECT_EQ(pages_to_grant(9, 3, 16), 2);
  EXPECT_EQ(pages_to_grant(10, 0, 1, 5), 15);
  EXPECT_EQ(pages_to_grant(10, 0, 1, 0), 12) << "never less than two steps";
}

}  // namespace
}  // namespace headrace::metadata
