// SPDX-License-Identifier: Apache-2.0
// The order in which a backend's work runs. An op is submitted to a stream; a stream either runs it
// or, while capturing, appends it to a graph that can be launched again and again. The CPU stream
// is a list of calls, so that the rules of graph replay (nothing but device arrays may change
// between two launches) hold, and are tested, without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/device.h"

namespace headrace {

class CpuGraph {
 public:
  using Call = std::function<void(ThreadPool&)>;
  size_t num_nodes() const { return calls_.size(); }

 private:
  friend class CpuStream;
  std::vector<Call> calls_;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(ThreadPool& pool) : pool_(pool) {}
  Device device() const override { return Device::kCpu; }
  ThreadPool& pool() { return pool_; }

  // Runs `call` now, or appends it to the graph being captured. A call must read every size that
  // may differ between two replays from the step's arrays, not from a captured number.
  void run(CpuGraph::Call call);
  void begin_capture();
  CpuGraph end_capture();
  void launch(const CpuGraph& graph);

 private:
  ThreadPool& pool_;
  bool capturing_ = false;
  CpuGraph captured_;
};

}  // namespace headrace
