// SPDX-License-Identifier: Apache-2.0
// A step for a GPU test: the rows of a test::TestStep, derived on the CPU and on the device alike.
#pragma once

#include <vector>

#include "metadata/arena.h"
#include "tensor/cuda/cuda_stream.h"
#include "tests/support/step_builder.h"

namespace headrace::test {

class GpuStep {
 public:
  GpuStep(const std::vector<TestRow>& rows, const TestStepOptions& options);

  // Other rows within the limits. Throws what is wrong with them. They are derived when the call
  // returns; without `build` the device has only the input and what it derived from earlier rows.
  void set_rows(const std::vector<TestRow>& rows, bool build = true);

  TestStep& host() { return host_; }
  const metadata::StepArena& arena() const { return arena_; }
  const metadata::StepView& view() const { return arena_.view(); }
  CudaStream& stream() { return stream_; }

 private:
  void upload(bool build);

  TestStep host_;
  metadata::StepArena arena_;
  CudaStream stream_;
};

}  // namespace headrace::test
