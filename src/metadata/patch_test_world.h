// SPDX-License-Identifier: Apache-2.0
// The device of a patch ring on the CPU, cut into small actions: a test lets the host in between
// any two. Runs the functions of patch_rules.h in the order of the drivers, with the model of
// patch_test_model.h as layers. Knows nothing of what the host is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "metadata/arena.h"
#include "metadata/patch.h"
#include "metadata/patch_rules.h"
#include "metadata/patch_test_host.h"
#include "metadata/patch_test_model.h"

namespace headrace::metadata::test_model {

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

// Mistakes that a test must notice.
struct WorldMistakes {
  bool consumes_what_it_fetched = false;  // says so before it is applied
  bool forgets_payload = false;           // copies words as far as the first record reaches
};

class World {
 public:
  enum class Next { kRows, kPlace, kModel, kBegin, kRecords, kWords, kLink, kEnd };

  World(const PatchShape& shape, const Limits& limits, int32_t num_pages, int32_t num_slots,
        uint32_t seed = 1, bool fetches_early = false, const WorldMistakes& mistakes = {})
      : shape_(shape),
        limits_(limits),
        fetches_early_(fetches_early),
        mistakes_(mistakes),
        random_(seed),
        arena_(must(StepArena::create(Device::kCpu, limits))),
        patches_(must(PatchArena::create(Device::kCpu, limits, shape))),
        ring_memory_(must(Buffer::allocate_zeroed(Device::kCpu, patch_ring_bytes(shape)))),
        params_(patches_.params(patch_ring_at(ring_memory_.data(), shape))),
        progress(size(limits.max_rows), 0),
        ids(size(limits.max_tokens), -5),
        sampled(size(limits.max_tokens), -5),
        next_token(size(limits.max_rows), -5),
        stalled(size(limits.max_rows), 0),
        ended(size(limits.max_rows), 0),
        cache(size((num_pages + 1) * limits.page_size), -9),
        states(size(num_slots + 1), 9),
        order_(size(limits.max_rows)) {
    reset();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // As it was made.
  void reset() {
    auto* begin = reinterpret_cast<char*>(arena_.input().num_rows);
    auto* end = reinterpret_cast<char*>(arena_.arrays().pages_filled + limits_.max_rows);
    std::memset(begin, 0, static_cast<size_t>(end - begin));
    *arena_.input().num_rows = limits_.max_rows;
    *arena_.input().padded_rows = limits_.max_rows;
    const PatchQueue& queue = params_.queue;
    auto* queue_end = reinterpret_cast<char*>(queue.blobs + limits_.max_rows * shape_.blob_words);
    std::memset(static_cast<void*>(queue.state), 0,
                static_cast<size_t>(queue_end - reinterpret_cast<char*>(queue.state)));
    std::memset(ring_memory_.data(), 0, ring_memory_.size_bytes());
    std::fill(stalled.begin(), stalled.end(), 0);
    std::fill(ended.begin(), ended.end(), uint8_t{0});
    build(stream_, arena_);
    next_ = Next::kRows;
    at_ = 0;
    emitted.clear();
  }

  // One small action: of one row, one record, four words …; returns what it was.
  Next act() {
    const Next now = next_;
    switch (now) {
      case Next::kRows:
        if (at_ == 0) shuffle_rows();
        patch_one_row(order_[at_]);
        if (++at_ < order_.size()) return now;
        go(fetches_early_ ? Next::kBegin : Next::kPlace);
        return now;
      case Next::kPlace:
        build(stream_, arena_);
        place_tokens(
            stream_,
            with_patches({arena_.view(), next_token.data(), nullptr, 0, ids.data()}, params_));
        go(Next::kModel);
        return now;
      case Next::kModel:
        run_model();
        go(fetches_early_ ? Next::kRows : Next::kBegin);
        return now;
      case Next::kBegin:
        fetch_ = begin_fetch(params_);
        go(fetch_.records_end == fetch_.records_before ? Next::kLink : Next::kRecords);
        return now;
      case Next::kRecords: {
        const uint64_t record = fetch_.records_before + 1 + at_++;
        for (int32_t i = 0; i < kPatchRecordPieces; ++i) fetch_record_piece(params_, record, i);
        if (record < fetch_.records_end) return now;
        go(fetch_.words_end == fetch_.words_before ? Next::kLink : Next::kWords);
        return now;
      }
      case Next::kWords: {
        const uint64_t word = fetch_.words_before + kPatchWordGrain * at_++;
        if (!mistakes_.forgets_payload || at_ < 2) fetch_words(params_, word);
        if (word + kPatchWordGrain >= fetch_.words_end) go(Next::kLink);
        return now;
      }
      case Next::kLink:
        link_records();
        go(Next::kEnd);
        return now;
      case Next::kEnd:
        end_fetch(params_, fetch_, least_pending());
        if (mistakes_.consumes_what_it_fetched) {
          store_release_system(&params_.ring.control->consumed, fetch_.records_end);
        }
        go(fetches_early_ ? Next::kPlace : Next::kRows);
        return now;
    }
    return now;
  }
  Next next() const { return next_; }

  const PatchParams& params() const { return params_; }
  const StepArena& arena() const { return arena_; }
  const StepView& view() const { return arena_.view(); }
  std::vector<int32_t> tokens_of(int32_t r) const {
    return {ids.begin() + view().query_start_i32[r], ids.begin() + view().query_start_i32[r + 1]};
  }

 private:
  static size_t size(int32_t count) { return static_cast<size_t>(count); }
  void go(Next next) {
    next_ = next;
    at_ = 0;
  }
  // In any order, as threads do.
  void link_records() {
    std::vector<uint64_t> numbers;
    for (uint64_t n = fetch_.records_before + 1; n <= fetch_.records_end; ++n) numbers.push_back(n);
    std::shuffle(numbers.begin(), numbers.end(), random_);
    for (uint64_t n : numbers) link_record(params_, fetch_, n);
  }
  // A launch runs its rows in any order.
  void shuffle_rows() {
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int32_t>(i);
    std::shuffle(order_.begin(), order_.end(), random_);
  }
  AdvanceParams advance_params() {
    return {arena_.input(), arena_.view(),     sampled.data(), nullptr,
            nullptr,        next_token.data(), stalled.data(), ended.data()};
  }
  void patch_one_row(int32_t r) {
    const AdvanceParams advance = advance_params();
    PatchedRow row = load_patched_row(advance, params_.queue, r);
    uint64_t first = params_.queue.first_pending[r];
    patch_row(advance, params_, r, 0, 1, params_.queue.state->step + 1, first, row);
    store_patched_row(advance, params_.queue, r, first, row);
  }
  void run_model() {
    const Model model{arena_.view(), ids.data(),     params_.queue.blobs, cache.data(),
                      states.data(), sampled.data(), ended.data()};
    for (int32_t r = 0; r < limits_.max_rows; ++r) {
      const int32_t token = run_row(model, r);
      const uint32_t generation = params_.queue.generation[r];
      if (token >= 0) emitted.push_back({r, generation, view().seq_len[r], token});
      if (view().query_len[r] > 0) {
        store_release_system(&progress[size(r)], progress_of(generation, view().seq_len[r]));
      }
    }
  }
  uint64_t least_pending() const {
    uint64_t least = 0;
    for (int32_t r = 0; r < limits_.max_rows; ++r) {
      const uint64_t first = params_.queue.first_pending[r];
      if (first != 0 && (least == 0 || first < least)) least = first;
    }
    return least;
  }

  PatchShape shape_;
  Limits limits_;
  bool fetches_early_;  // before the tokens are placed: a branch that leaves as early as it may
  WorldMistakes mistakes_;
  std::mt19937 random_;
  ThreadPool pool_{1};
  CpuStream stream_{pool_};
  StepArena arena_;
  PatchArena patches_;
  Buffer ring_memory_;
  PatchParams params_;
  PatchFetch fetch_;
  Next next_ = Next::kRows;
  size_t at_ = 0;

 public:
  std::vector<uint64_t> progress;  // [R]
  std::vector<int32_t> ids, sampled, next_token, stalled;
  std::vector<uint8_t> ended;
  std::vector<int32_t> cache;
  std::vector<uint32_t> states;
  std::vector<Emitted> emitted;

 private:
  std::vector<int32_t> order_;
};

}  // namespace headrace::metadata::test_model
