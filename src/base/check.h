// SPDX-License-Identifier: Apache-2.0
// Invariants. A broken one throws InternalError, which the engine turns into a failed request; it
// is never used for what a user or a file can cause (that is Status).
#pragma once

#include <stdexcept>
#include <string>

namespace headrace {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& detail);

}  // namespace headrace

// HEADRACE_CHECK(n > 0) or HEADRACE_CHECK(n > 0, "n is " + std::to_string(n)). Always on.
#define HEADRACE_CHECK(condition, ...)                                                    \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::headrace::check_failed(#condition, __FILE__, __LINE__, std::string(__VA_ARGS__)); \
  } while (false)
