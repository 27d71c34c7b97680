// SPDX-License-Identifier: Apache-2.0
// What a row of the step does with its slots, in one place so that convolution and delta rule
// cannot disagree, on either device.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "gdn/gdn_params.h"
#include "metadata/host_device.h"
#include "metadata/step.h"

namespace headrace::gdn {

struct RowState {
  int32_t query_len = 0;
  int32_t context_len = 0;
  int64_t first_token = 0;   // index in the step
  int32_t initial_slot = 0;  // kNullSlot: start from zeros, whatever the row's slot holds
  int32_t final_slot = 0;    // kNullSlot: discard
  int32_t num_replayed = 0;  // accepted tokens of the pending window in initial_slot
  bool is_verify = false;    // the live state stays after the accepted prefix
};

HEADRACE_HOST_DEVICE inline RowState row_state(const metadata::StepView& step,
                                               const SlotPool& slots, int32_t row) {
  RowState state;
  state.query_len = step.query_len[row];
  state.context_len = step.context_len[row];
  state.first_token = step.query_start_i64[row];
  state.final_slot = step.final_slot[row];
  if (step.has_initial_state[row] != 0) {
    state.initial_slot = step.initial_slot[row];
    state.num_replayed = step.num_accepted[row];
  }
  state.is_verify = step.kind[row] == metadata::RowKind::kVerify;
#ifndef __CUDA_ARCH__
  HEADRACE_CHECK(state.initial_slot < slots.num_slots && state.final_slot < slots.num_slots,
                 "a row's GDN slot lies outside the pool");
  HEADRACE_CHECK(state.num_replayed <= slots.max_window,
                 "more accepted tokens than the slot's verify window holds");
  HEADRACE_CHECK(!state.is_verify || state.query_len <= slots.max_window,
                 "a verify row is longer than the slot's verify window");
#endif
  return state;
}

// Calls f(position, slot) for the row's checkpoints with begin < position ≤ end, where the row has
// consumed `position` tokens of its sequence. Positions are multiples of kChunkTokens.
template <typename F>
HEADRACE_HOST_DEVICE void for_each_checkpoint(const metadata::StepView& step, int32_t row,
                                              int64_t begin, int64_t end, F&& f) {
  for (int32_t i = 0; i < step.counts->num_checkpoints; ++i) {
    const metadata::Checkpoint& checkpoint = step.checkpoints[i];
    if (checkpoint.row != row || checkpoint.position <= begin || checkpoint.position > end)
      continue;
    f(int64_t{checkpoint.position}, checkpoint.slot);
  }
}

}  // namespace headrace::gdn
