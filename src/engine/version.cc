// SPDX-License-Identifier: Apache-2.0
// The version of the library, the same as in CMakeLists.txt (a test compares them).
#include "headrace/version.h"

namespace headrace {

const char* version() { return "0.1.0"; }

}  // namespace headrace
