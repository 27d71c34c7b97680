// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <algorithm>

#include "metadata/index.h"
#include "metadata/row.h"

namespace headrace::engine {
namespace {

using metadata::kChunkTokens;
using metadata::pages_for;

bool is_decoding(const SequenceLengths& sequence) {
  return sequence.num_computed_tokens > 0 &&
         sequence.num_tokens - sequence.num_computed_tokens == 1;
}

// One planning run. Sequences from `num_kept_` on are preempted. Decodes are planned from the
// oldest and take pages from the youngest, so that no planned row is ever taken back; where a
// prefill went first, a decode that lacks a page waits for the next step instead.
class Planner {
 public:
  Planner(const SchedulerLimits& limits, const SchedulerInput& input, StepPlan& plan)
      : limits_(limits),
        input_(input),
        plan_(plan),
        num_kept_(static_cast<int32_t>(input.running.size())),
        free_pages_(input.free_pages),
        free_slots_(input.free_slots),
        budget_(limits.max_tokens) {}

  void run() {
    if (input_.prefill_first) plan_left_out_prefill();
    may_preempt_ = plan_.rows.empty();
    plan_decodes();
    plan_prefills();
    if (plan_.preempted.empty() && !left_out_) plan_admissions();
    if (input_.prefill_first) {
      std::stable_partition(plan_.rows.begin(), plan_.rows.end(),
                            [](const PlannedRow& row) { return row.is_decode; });
    }
    // Not after a step in which a prefill went first: the decodes have their turn in between.
    plan_.prefill_was_left_out = left_out_ && num_prefill_rows_ == 0 && !input_.prefill_first;
  }

 private:
  static constexpr int32_t kNobody = -1;

  const SequenceLengths& running(int32_t i) const { return input_.running[static_cast<size_t>(i)]; }

  // The oldest running prefill gets one chunk before anybody else; without one, the first waiting
  // sequence is admitted with one.
  void plan_left_out_prefill() {
    for (int32_t i = 0; i < num_kept_; ++i) {
      if (is_decoding(running(i))) continue;
      add_prefill(i, running(i), std::min(budget_, kChunkTokens), 0);
      went_first_ = i;
      return;
    }
    admit_next(std::min(budget_, kChunkTokens));
  }

  void plan_decodes() {
    for (int32_t i = 0; i < num_kept_ && budget_ > 0; ++i) {
      const SequenceLengths& sequence = running(i);
      if (!is_decoding(sequence)) continue;
      const int32_t needed =
          std::max(pages_for(sequence.num_tokens, limits_.page_size) - sequence.num_pages, 0);
      // Sequence i itself may be the youngest, and the victim.
      while (needed > free_pages_ && num_kept_ > i && may_preempt_) preempt_youngest();
      if (needed > free_pages_ || num_kept_ <= i) continue;
      free_pages_ -= needed;
      plan_.rows.push_back({i, 1, needed, true, true});
      --budget_;
    }
  }

  void plan_prefills() {
    for (int32_t i = 0; i < num_kept_; ++i) {
      if (is_decoding(running(i)) || i == went_first_) continue;
      if (!add_prefill(i, running(i), budget_, 0)) left_out_ = true;
    }
  }

  void plan_admissions() {
    while (admit_next(budget_)) {
    }
  }

  // False when there is nobody to admit, or no room.
  bool admit_next(int32_t budget) {
    const auto next = static_cast<size_t>(plan_.num_admitted);
    const int32_t num_running = num_kept_ + plan_.num_admitted;
    if (next >= input_.waiting.size() || free_slots_ == 0 || num_running >= limits_.max_rows) {
      return false;
    }
    const SequenceLengths& sequence = input_.waiting[next];
    const int32_t needed = pages_for(sequence.num_tokens + 1, limits_.page_size);
    // A page in reserve for each running sequence: a newcomer should not be preempted at once.
    if (needed > free_pages_ - num_running) return false;
    const auto index = static_cast<int32_t>(input_.running.size()) + plan_.num_admitted;
    if (!add_prefill(index, sequence, budget, needed)) {
      left_out_ = true;
      return false;
    }
    free_pages_ -= needed;
    --free_slots_;
    ++plan_.num_admitted;
    return true;
  }

  bool add_prefill(int32_t index, const SequenceLengths& sequence, int32_t budget,
                   int32_t new_pages) {
    const int32_t remaining = sequence.num_tokens - sequence.num_computed_tokens;
    const int32_t chunk = prefill_chunk(sequence.num_computed_tokens, remaining, budget);
    if (chunk == 0) return false;
    plan_.rows.push_back({index, chunk, new_pages, chunk == remaining, false});
    budget_ -= chunk;
    ++num_prefill_rows_;
    return true;
  }

  void preempt_youngest() {
    --num_kept_;
    free_pages_ += running(num_kept_).num_pages;
    plan_.preempted.push_back(num_kept_);
  }

  const SchedulerLimits& limits_;
  const SchedulerInput& input_;
  StepPlan& plan_;
  int32_t num_kept_;
  int32_t free_pages_;
  int32_t free_slots_;
  int32_t budget_;  // −1 after a chunk that took a last token along
  int32_t num_prefill_rows_ = 0;
  int32_t went_first_ = kNobody;
  bool may_preempt_ = true;
  bool left_out_ = false;  // some prefill got no chunk
};

}  // namespace

void StepPlan::clear() {
  rows.clear();
  preempted.clear();
  num_admitted = 0;
  prefill_was_left_out = false;
}

int32_t prefill_chunk(int32_t context_len, int32_t remaining, int32_t budget) {
  if (budget <= 0) return 0;
  if (remaining <= budget) return remaining;
  const int32_t end = (context_len + budget) / kChunkTokens * kChunkTokens;
  const int32_t chunk = std::max(end - context_len, 0);
  return chunk > 0 && remaining - chunk == 1 ? remaining : chunk;
}

void plan_step(const SchedulerLimits& limits, const SchedulerInput& input, StepPlan& plan) {
  plan.clear();
  Planner(limits, input, plan).run();
}

}  // namespace headrace::engine
