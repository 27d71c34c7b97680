// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/device_properties.h"

#include <cuda_runtime_api.h>

#include <array>
#include <mutex>
#include <optional>

#include "tensor/cuda/cuda_error.h"

namespace headrace {
namespace {

constexpr int kMaxDevices = 64;

Result<GpuProperties> ask(int device) {
  int count = 0;
  int major = 0;
  int minor = 0;
  int shared_bytes = 0;
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return GpuProperties{.num_multiprocessors = count,
                       .compute_capability = 10 * major + minor,
                       .max_shared_bytes = shared_bytes};
}

}  // namespace

Result<GpuProperties> gpu_properties() {
  static std::array<std::optional<GpuProperties>, kMaxDevices> known;
  static std::mutex mutex;
  int device = 0;
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  if (device >= kMaxDevices) return ask(device);
  const std::lock_guard lock(mutex);
  auto& properties = known[static_cast<size_t>(device)];
  if (!properties.has_value()) {
    HEADRACE_ASSIGN_OR_RETURN(properties, ask(device));
  }
  return *properties;
}

}  // namespace headrace
