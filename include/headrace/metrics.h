// SPDX-License-Identifier: Apache-2.0
// Counters and gauges of a running engine.
#pragma once

#include <cstdint>

namespace headrace {

// A consistent copy, taken between two steps. Counters only grow.
struct MetricsSnapshot {
  // gauges
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_pages = 0;  // of the pool, without the null page
  int64_t num_pages_used = 0;
  int64_t num_slots = 0;  // of the pool, without the null slot
  int64_t num_slots_used = 0;
  // counters
  int64_t requests_submitted = 0;
  int64_t requests_rejected = 0;  // queue full
  int64_t requests_finished = 0;  // stop or length
  int64_t requests_cancelled = 0;
  int64_t requests_failed = 0;
  int64_t preemptions = 0;
  int64_t prompt_tokens = 0;  // prompts admitted, counted once
  int64_t generated_tokens = 0;
  int64_t recomputed_tokens = 0;  // prefilled again after a preemption
  int64_t steps = 0;
  int64_t decode_only_steps = 0;  // no prefill row
  double step_seconds = 0;        // sum over steps
};

}  // namespace headrace
