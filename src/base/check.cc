// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

namespace headrace {

void check_failed(const char* expression, const char* file, int line, const std::string& detail) {
  std::string message =
      std::string(file) + ":" + std::to_string(line) + ": internal error: expected " + expression;
  if (!detail.empty()) message += " (" + detail + ")";
  throw InternalError(message);
}

}  // namespace headrace
