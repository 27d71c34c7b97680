// SPDX-License-Identifier: Apache-2.0
// Which instruction set the CPU kernels use. Chosen once, at run time.
#pragma once

#include <string>
#include <vector>

namespace headrace {

enum class Isa { kScalar, kAvx2 };

// AVX2 (with FMA and F16C) where the processor has it, unless HEADRACE_CPU_ISA=scalar says
// otherwise. Fixed at the first call.
Isa cpu_isa();
const char* isa_name(Isa isa);  // "scalar", "avx2"

// What the processor offers, of the names used in DeviceReport.
std::vector<std::string> cpu_isa_list();

}  // namespace headrace
