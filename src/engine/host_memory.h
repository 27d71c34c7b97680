// SPDX-License-Identifier: Apache-2.0
// Memory of the machine and of the control group (v1 or v2) that this process runs in.
#pragma once

#include <cstdint>
#include <string>

namespace headrace::engine {

struct HostMemory {
  int64_t total_bytes = 0;      // 0 if the system does not say
  int64_t available_bytes = 0;  // the least of the machine's and of every enclosing group's
};

// `root` stands before every path that is read, so that tests can bring a machine of their own.
HostMemory host_memory(const std::string& root = "");

}  // namespace headrace::engine
