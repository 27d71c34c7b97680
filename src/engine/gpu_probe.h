// SPDX-License-Identifier: Apache-2.0
// Which NVIDIA driver and GPUs are there: asks the driver library if it can be loaded. No part of
// the program links to it, so that one binary runs with and without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/device_report.h"

namespace headrace::engine {

struct GpuProbe {
  bool driver_found = false;
  std::string driver_version;  // "580.65.06"; empty if only the library is there and says nothing
  int32_t cuda_version = 0;    // newest CUDA that the driver serves: 13000 for 13.0; 0: unknown
  std::vector<GpuReport> gpus;
  std::string problem;  // what went wrong though a driver is there, with what to do; else empty
};

// Paths for tests. The defaults are the real ones.
struct GpuProbeSources {
  std::string driver_library = "libcuda.so.1";
  std::string version_file = "/proc/driver/nvidia/version";
};

GpuProbe probe_gpus(const GpuProbeSources& sources = {});

// From the first line of /proc/driver/nvidia/version: the first word that looks like 580.65.06.
std::string parse_driver_version(const std::string& text);

}  // namespace headrace::engine
