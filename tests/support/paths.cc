// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace headrace::test {

std::string source_dir() { return HEADRACE_SOURCE_DIR; }
std::string binary_dir() { return HEADRACE_BINARY_DIR; }

}  // namespace headrace::test
