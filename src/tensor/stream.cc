// SPDX-License-Identifier: Apache-2.0
#include "tensor/stream.h"

#include <utility>

#include "base/check.h"

namespace headrace {

void CpuStream::run(CpuGraph::Call call) {
  if (capturing_) {
    captured_.calls_.push_back(std::move(call));
  } else {
    call(pool_);
  }
}

void CpuStream::begin_capture() {
  HEADRACE_CHECK(!capturing_, "begin_capture inside a capture");
  capturing_ = true;
}

CpuGraph CpuStream::end_capture() {
  HEADRACE_CHECK(capturing_, "end_capture without begin_capture");
  capturing_ = false;
  return std::exchange(captured_, {});
}

void CpuStream::launch(const CpuGraph& graph) {
  HEADRACE_CHECK(!capturing_, "launch inside a capture");
  for (const CpuGraph::Call& call : graph.calls_) call(pool_);
}

}  // namespace headrace
