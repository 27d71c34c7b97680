// SPDX-License-Identifier: Apache-2.0
// What this machine offers, for `headrace doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

struct CpuReport {
  std::string model_name;
  int32_t num_logical_cores = 0;  // that this process may run on
  std::vector<std::string> isa;   // of {"avx2", "fma", "f16c", "avx512f", …}
  std::string isa_in_use;         // "scalar" or "avx2": what the kernels use, HEADRACE_CPU_ISA
  int64_t memory_total_bytes = 0;
  int64_t memory_available_bytes = 0;  // the smaller of the machine's and the cgroup's
};

// How much of this program's GPU kernels a GPU can run.
enum class KernelFit {
  kNone,
  kSome,  // all but the attention kernels for compute capability 9.0: the general ones run
  kAll,
};

struct GpuReport {
  std::string name;
  int64_t memory_total_bytes = 0;
  int32_t compute_capability_major = 0;
  int32_t compute_capability_minor = 0;
  KernelFit kernels = KernelFit::kNone;
};

struct DeviceReport {
  CpuReport cpu;
  bool driver_found = false;
  std::string driver_version;       // e.g. "580.65.06"; empty without a driver
  int32_t driver_cuda_version = 0;  // newest CUDA that the driver serves: 13000 for 13.0
  std::vector<GpuReport> gpus;
  bool built_with_cuda = false;
  std::vector<std::string> kernel_architectures;  // compiled in: "90a"; empty without CUDA
  // One line each: what is missing and what to do about it. Empty when all is well.
  std::vector<std::string> advice;
};

// Asks the operating system and, if it is there, the driver (loaded with dlopen). Never fails.
DeviceReport device_report();

}  // namespace headrace
