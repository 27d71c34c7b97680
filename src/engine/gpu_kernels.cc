// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu_kernels.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace headrace::engine {
namespace {

#ifndef HEADRACE_CUDA_ARCHS
#define HEADRACE_CUDA_ARCHS ""
#endif

// Of "90a": 90.
int32_t number_of(const std::string& architecture) {
  int32_t number = 0;
  std::from_chars(architecture.data(), architecture.data() + architecture.size(), number);
  return number;
}

}  // namespace

std::vector<std::string> kernel_architectures() {
  std::vector<std::string> list;
  std::istringstream words(HEADRACE_CUDA_ARCHS);
  for (std::string word; std::getline(words, word, ',');) {
    list.push_back(word.substr(0, word.find('-')));
  }
  return list;
}

KernelFit kernel_fit(const std::vector<std::string>& architectures, int32_t major, int32_t minor) {
  KernelFit fit = KernelFit::kNone;
  for (const std::string& architecture : architectures) {
    const int32_t number = number_of(architecture);
    if (architecture.ends_with('a')) {
      if (number == 10 * major + minor) return KernelFit::kAll;
    } else if (number / 10 == major && number % 10 <= minor) {
      fit = KernelFit::kSome;
    }
  }
  return fit;
}

std::string why_not_cuda(const DeviceReport& report) {
  if (!report.built_with_cuda) {
    return "this build has no GPU kernels, and this version runs models on the CPU only: leave "
           "--device out";
  }
  if (report.gpus.empty()) {
    return "no NVIDIA GPU that this process may use: `headrace doctor` says why; leave --device "
           "out to use the CPU";
  }
  const bool any_fits =
      std::any_of(report.gpus.begin(), report.gpus.end(),
                  [](const GpuReport& gpu) { return gpu.kernels == KernelFit::kAll; });
  if (!any_fits) {
    const GpuReport& gpu = report.gpus[0];
    return fmt::format(
        "{} has compute capability {}.{}, and the kernels of this build are for {}: leave --device "
        "out to use the CPU",
        gpu.name, gpu.compute_capability_major, gpu.compute_capability_minor,
        fmt::join(report.kernel_architectures, ", "));
  }
  return "the GPU kernels of this version are not behind its models yet: leave --device out to use "
         "the CPU";
}

}  // namespace headrace::engine
