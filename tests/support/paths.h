// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace headrace::test {

std::string source_dir();  // the repository, without a slash at the end
std::string binary_dir();  // the build folder
inline std::string demo_model_dir() { return source_dir() + "/models/demo"; }
inline std::string golden_dir() { return source_dir() + "/tests/golden"; }

}  // namespace headrace::test
