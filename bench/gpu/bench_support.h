// SPDX-License-Identifier: Apache-2.0
// What the GPU benches share: errors as exceptions, times of graph replays, and the facts of the
// run that every JSON line ends with. Knows nothing of what is measured.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "headrace/status.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/cuda_event.h"
#include "tensor/cuda/cuda_stream.h"

namespace headrace::bench {

inline void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}
inline void check(cudaError_t error, const char* call) { check(cuda_status(error, call)); }
template <typename T>
T value_of(Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

struct Timing {
  double median_us = 0;  // of one call
  double min_us = 0;
};

struct TimingOptions {
  int samples = 15;
  // A sample is as many replays as last this long; 0: one.
  double min_sample_us = 0;
  int warm_ups = 3;  // samples thrown away
};

// submit() puts `calls` calls on the stream; it is captured into a graph that is replayed. So the
// figure is what a call costs inside a graph, the gap to the next one included.
inline Timing time_graph(CudaStream& stream, int calls, const std::function<void()>& submit,
                         const TimingOptions& options = {}) {
  check(stream.begin_capture());
  submit();
  const CudaGraph graph = value_of(stream.end_capture());
  CudaEvent begin = value_of(CudaEvent::create());
  CudaEvent end = value_of(CudaEvent::create());
  const auto sample_us = [&](int replays) {
    check(begin.record(stream));
    for (int i = 0; i < replays; ++i) check(stream.launch(graph));
    check(end.record(stream));
    check(stream.synchronize());
    return value_of(end.us_since(begin));
  };
  sample_us(1);
  const double replay_us = std::max(1.0, sample_us(1));
  const int replays = std::max(1, static_cast<int>(std::ceil(options.min_sample_us / replay_us)));
  std::vector<double> times_us;
  for (int i = 0; i < options.warm_ups + options.samples; ++i) {
    const double us = sample_us(replays) / replays / calls;
    if (i >= options.warm_ups) times_us.push_back(us);
  }
  std::sort(times_us.begin(), times_us.end());
  return {times_us[times_us.size() / 2], times_us[0]};
}

// The first word of the driver's version file that is a version.
inline std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

// What all lines of a run share, from "device" on, without braces.
inline std::string facts(const std::string& commit, const std::string& command) {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int cuda = 0;
  check(cudaRuntimeGetVersion(&cuda), "cudaRuntimeGetVersion");
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  return R"("device": ")" + std::string(device.name) + R"(", "driver": ")" + driver_version() +
         R"(", "cuda": ")" + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) +
         R"(", "commit": ")" + commit + R"(", "date": ")" + date + R"(", "command": ")" + command +
         R"(")";
}

}  // namespace headrace::bench
