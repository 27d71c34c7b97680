// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu_probe.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

namespace headrace::engine {
namespace {

// The part of the driver's C interface that is used here, declared by hand: the build needs no CUDA
// headers. Values and signatures are stable since CUDA 4.
using CuResult = int;
constexpr CuResult kCuSuccess = 0;
constexpr CuResult kCuErrorNoDevice = 100;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

struct Driver {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*driver_get_version)(int* version) = nullptr;
  CuResult (*device_get_count)(int* count) = nullptr;
  CuResult (*device_get)(int* device, int ordinal) = nullptr;
  CuResult (*device_get_name)(char* name, int length, int device) = nullptr;
  CuResult (*device_total_mem)(size_t* size_bytes, int device) = nullptr;
  CuResult (*device_get_attribute)(int* value, int attribute, int device) = nullptr;

  bool load(void* library) {
    return find(library, "cuInit", init) &&
           find(library, "cuDriverGetVersion", driver_get_version) &&
           find(library, "cuDeviceGetCount", device_get_count) &&
           find(library, "cuDeviceGet", device_get) &&
           find(library, "cuDeviceGetName", device_get_name) &&
           find(library, "cuDeviceTotalMem_v2", device_total_mem) &&
           find(library, "cuDeviceGetAttribute", device_get_attribute);
  }

  GpuReport report(int ordinal) const {
    GpuReport gpu;
    int device = 0;
    if (device_get(&device, ordinal) != kCuSuccess) return gpu;
    char name[256] = {};
    if (device_get_name(name, sizeof(name) - 1, device) == kCuSuccess) gpu.name = name;
    size_t size_bytes = 0;
    if (device_total_mem(&size_bytes, device) == kCuSuccess) {
      gpu.memory_total_bytes = static_cast<int64_t>(size_bytes);
    }
    device_get_attribute(&gpu.compute_capability_major, kComputeCapabilityMajor, device);
    device_get_attribute(&gpu.compute_capability_minor, kComputeCapabilityMinor, device);
    return gpu;
  }
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string parse_driver_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  std::string word;
  while (words >> word) {
    const bool is_version = word.find('.') != std::string::npos &&
                            std::all_of(word.begin(), word.end(),
                                        [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    if (is_version) return word;
  }
  return "";
}

GpuProbe probe_gpus(const GpuProbeSources& sources) {
  GpuProbe probe;
  probe.driver_version = parse_driver_version(read_file(sources.version_file));
  probe.driver_found = !probe.driver_version.empty();
  const Library library(dlopen(sources.driver_library.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (library == nullptr) {
    if (probe.driver_found) {
      probe.problem = fmt::format(
          "the kernel driver {} runs but {} cannot be loaded: install the driver's "
          "user libraries of the same version",
          probe.driver_version, sources.driver_library);
    }
    return probe;
  }
  probe.driver_found = true;
  Driver driver;
  if (!driver.load(library.get())) {
    probe.problem = fmt::format("{} lacks functions of the CUDA driver: reinstall the driver",
                                sources.driver_library);
    return probe;
  }
  driver.driver_get_version(&probe.cuda_version);
  const CuResult started = driver.init(0);
  if (started == kCuErrorNoDevice) return probe;
  int count = 0;
  if (started != kCuSuccess || driver.device_get_count(&count) != kCuSuccess) {
    probe.problem = fmt::format(
        "the CUDA driver does not start (error {}): check that /dev/nvidia* exist and that the "
        "library and the kernel driver have the same version",
        started);
    return probe;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) probe.gpus.push_back(driver.report(ordinal));
  return probe;
}

}  // namespace headrace::engine
