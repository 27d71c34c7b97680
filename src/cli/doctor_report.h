// SPDX-License-Identifier: Apache-2.0
// What `headrace doctor` says about a machine.
#pragma once

#include <string>
#include <vector>

#include "headrace/device_report.h"

namespace headrace::cli {

// Why Headrace cannot work here at all, and what to do; empty if it can. A missing GPU is none.
std::vector<std::string> essential_failures(const DeviceReport& report);

// For a person; ends with a line that says whether all is well.
std::string doctor_text(const DeviceReport& report, const std::vector<std::string>& failures);

}  // namespace headrace::cli
