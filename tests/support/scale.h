// SPDX-License-Identifier: Apache-2.0
// Counts of property, fuzz and load tests: a tenth under a sanitizer.
#pragma once

namespace headrace::test {

constexpr int scaled(int count) {
#ifdef HEADRACE_SANITIZER
  return count >= 10 ? count / 10 : 1;
#else
  return count;
#endif
}

}  // namespace headrace::test
