// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include "headrace/version.h"

namespace headrace::cli {
namespace {

// What the smallest useful model takes with its cache.
constexpr int64_t kLeastMemoryBytes = int64_t{64} << 20;

std::string memory_size(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string driver_line(const DeviceReport& report) {
  if (!report.driver_found) return "none";
  std::string line = report.driver_version.empty() ? "version unknown" : report.driver_version;
  if (report.driver_cuda_version > 0) {
    line += fmt::format(", serves CUDA {}.{}", report.driver_cuda_version / 1000,
                        report.driver_cuda_version % 1000 / 10);
  }
  return line;
}

const char* fit_text(KernelFit fit) {
  return fit == KernelFit::kAll    ? "all kernels fit"
         : fit == KernelFit::kSome ? "some kernels fit"
                                   : "no kernels fit";
}

void append_gpus(std::string& out, const DeviceReport& report) {
  if (report.gpus.empty()) out += "GPU      none\n";
  for (const GpuReport& gpu : report.gpus) {
    out += fmt::format("GPU      {}, {}, compute capability {}.{}{}\n", gpu.name,
                       memory_size(gpu.memory_total_bytes), gpu.compute_capability_major,
                       gpu.compute_capability_minor,
                       report.built_with_cuda ? fmt::format(", {}", fit_text(gpu.kernels)) : "");
  }
}

}  // namespace

std::vector<std::string> essential_failures(const DeviceReport& report) {
  std::vector<std::string> failures;
  if (report.cpu.num_logical_cores < 1) {
    failures.push_back("no core that this process may use: look at its CPU affinity (taskset)");
  }
  if (report.cpu.memory_available_bytes < kLeastMemoryBytes) {
    failures.push_back(fmt::format(
        "{} of memory available, less than {}: end other programs or raise the container's limit",
        memory_size(report.cpu.memory_available_bytes), memory_size(kLeastMemoryBytes)));
  }
  return failures;
}

std::string doctor_text(const DeviceReport& report, const std::vector<std::string>& failures) {
  const CpuReport& cpu = report.cpu;
  std::string out = fmt::format("version  {}\n", version());
  out += fmt::format("CPU      {}, {} core{} usable\n",
                     cpu.model_name.empty() ? "unknown" : cpu.model_name, cpu.num_logical_cores,
                     cpu.num_logical_cores == 1 ? "" : "s");
  out += fmt::format(
      "kernels  {} in use; the CPU has {}\n", cpu.isa_in_use,
      cpu.isa.empty() ? "none of the extensions" : fmt::to_string(fmt::join(cpu.isa, " ")));
  out += fmt::format("memory   {}, {} available\n", memory_size(cpu.memory_total_bytes),
                     memory_size(cpu.memory_available_bytes));
  append_gpus(out, report);
  out += fmt::format("driver   {}\n", driver_line(report));
  out += report.built_with_cuda ? fmt::format("CUDA     in this build, kernels for {}\n",
                                              fmt::join(report.kernel_architectures, ", "))
                                : "CUDA     not in this build\n";
  for (const std::string& failure : failures) out += fmt::format("broken   {}\n", failure);
  for (const std::string& advice : report.advice) out += fmt::format("advice   {}\n", advice);
  out += failures.empty() ? "ready to generate\n" : "cannot generate here\n";
  return out;
}

}  // namespace headrace::cli
