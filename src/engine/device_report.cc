// SPDX-License-Identifier: Apache-2.0
// Collects what `headrace doctor` shows and says what is missing.
#include "headrace/device_report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <utility>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "engine/gpu_kernels.h"
#include "engine/gpu_probe.h"
#include "engine/host_memory.h"

namespace headrace {
namespace {

#ifdef HEADRACE_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

// Of the CUDA runtime that is linked in. Drivers serve every runtime of their own major version.
constexpr int32_t kCudaMajor = 13;
constexpr int64_t kLittleMemoryBytes = int64_t{1} << 30;

// "model name : …" on x86, "Model" or "Hardware" on others.
std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_first_of("\t:"));
    if (key == "model name" || key == "Model" || key == "Hardware") {
      const size_t begin = line.find_first_not_of(' ', colon + 1);
      if (begin != std::string::npos) return line.substr(begin);
    }
  }
  return "unknown";
}

void advise(const engine::GpuProbe& probe, DeviceReport& report) {
  const auto say = [&](std::string line) { report.advice.push_back(std::move(line)); };
  if (!report.cpu.isa.empty() && report.cpu.isa_in_use == "scalar") {
    say("the kernels run without AVX2, which is several times slower: unset HEADRACE_CPU_ISA if "
        "the processor has avx2, fma and f16c");
  }
  if (report.cpu.memory_available_bytes < kLittleMemoryBytes) {
    say(
        fmt::format("only {} MiB of memory are free: close other programs or raise the memory "
                    "limit of the container",
                    report.cpu.memory_available_bytes >> 20));
  }
  if (!probe.problem.empty()) say(probe.problem);
  if (!report.driver_found) {
    say("no NVIDIA driver: nothing to do, this version runs models on the CPU only");
    return;
  }
  if (report.gpus.empty() && probe.problem.empty()) {
    say("an NVIDIA driver but no GPU that this process may use: check CUDA_VISIBLE_DEVICES and, in "
        "a container, that the GPU is passed in");
  }
  if (report.built_with_cuda && report.driver_cuda_version > 0 &&
      report.driver_cuda_version / 1000 < kCudaMajor) {
    say(fmt::format(
        "the driver serves CUDA {}.{} and this build needs {}: update the driver (580 or "
        "newer)",
        report.driver_cuda_version / 1000, report.driver_cuda_version % 1000 / 10, kCudaMajor));
  }
  for (const GpuReport& gpu : report.gpus) {
    if (!report.built_with_cuda || gpu.kernels == KernelFit::kAll) continue;
    say(fmt::format(
        "{} has compute capability {}.{}: {} of the kernels of this build ({}) run there", gpu.name,
        gpu.compute_capability_major, gpu.compute_capability_minor,
        gpu.kernels == KernelFit::kSome ? "some" : "none",
        fmt::join(report.kernel_architectures, ", ")));
  }
  if (!report.gpus.empty()) {
    say("a GPU is there, but this version runs models on the CPU only");
  }
}

}  // namespace

DeviceReport device_report() {
  DeviceReport report;
  report.cpu.model_name = cpu_model_name();
  report.cpu.num_logical_cores = available_cores();
  report.cpu.isa = cpu_isa_list();
  report.cpu.isa_in_use = isa_name(cpu_isa());
  const engine::HostMemory memory = engine::host_memory();
  report.cpu.memory_total_bytes = memory.total_bytes;
  report.cpu.memory_available_bytes = memory.available_bytes;
  engine::GpuProbe probe = engine::probe_gpus();
  report.driver_found = probe.driver_found;
  report.driver_version = probe.driver_version;
  report.driver_cuda_version = probe.cuda_version;
  report.built_with_cuda = kBuiltWithCuda;
  report.kernel_architectures = engine::kernel_architectures();
  report.gpus = std::move(probe.gpus);
  for (GpuReport& gpu : report.gpus) {
    gpu.kernels = engine::kernel_fit(report.kernel_architectures, gpu.compute_capability_major,
                                     gpu.compute_capability_minor);
  }
  advise(probe, report);
  return report;
}

}  // namespace headrace
