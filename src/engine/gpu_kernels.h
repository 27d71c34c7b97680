// SPDX-License-Identifier: Apache-2.0
// Which GPUs the kernels in this program were compiled for. Knows architectures, no kernels.
#pragma once

#include <string>
#include <vector>

#include "headrace/device_report.h"

namespace headrace::engine {

// As CMake was told, without "-real": {"80", "89", "90a"}. Empty without CUDA.
std::vector<std::string> kernel_architectures();

// Code for "80" runs on every 8.x from 8.0 on; code for "90a", which the kernels that need Hopper
// are compiled for, on 9.0 alone. kSome: all but those.
KernelFit kernel_fit(const std::vector<std::string>& architectures, int32_t major, int32_t minor);

// Why this version does not run models on a GPU of this machine, with what to do.
std::string why_not_cuda(const DeviceReport& report);

}  // namespace headrace::engine
