// SPDX-License-Identifier: Apache-2.0
// The step arena: one allocation of fixed maximum size that holds the input of a step and every
// array derived from it. A captured graph keeps its addresses, so a replay may bring any lengths,
// kinds and counts within the limits.
#pragma once

#include <cstdint>

#include "headrace/status.h"
#include "metadata/arrays.h"
#include "metadata/step.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace headrace::metadata {

class StepArena {
 public:
  // kInvalidArgument for limits that make no sense (says which), kResourceExhausted without memory.
  static Result<StepArena> create(Device device, const Limits& limits);

  const Limits& limits() const { return view_.limits; }
  // Mutable input; only between two steps.
  const StepInput& input() const { return input_; }
  // Derived arrays; valid after build() ran on the stream.
  const StepView& view() const { return view_; }
  // The same arrays, for those that make them: build(), advance() and tests that poison them.
  const StepArrays& arrays() const { return arrays_; }

 private:
  Buffer buffer_;
  StepInput input_;
  StepArrays arrays_;
  StepView view_;
};

// Submits the derivation of all arrays of `arena` to the stream: one launch, no allocation, no read
// back. The rows must satisfy check_rows().
void build(Stream& stream, const StepArena& arena);

// What the scheduler must guarantee: lengths and counts within the limits, num_drafts matching
// query_len, pages enough for seq_len, slots not negative. kInvalidArgument names row and value.
Status check_rows(const StepArena& arena);

// Rows of the chunk tables: C in StepView.
int32_t max_chunks(const Limits& limits);

}  // namespace headrace::metadata
