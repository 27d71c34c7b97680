// SPDX-License-Identifier: Apache-2.0
// Whose tokens a launch writes.
#pragma once

namespace headrace::attention {

enum class RowSet {
  kDecode,   // decode and verify rows, and padding tokens: zero, lse −inf
  kPrefill,  // prefill rows
  kAll,
};

inline const char* row_set_name(RowSet rows) {
  switch (rows) {
    case RowSet::kDecode:
      return "decode and verify rows";
    case RowSet::kPrefill:
      return "prefill rows";
    default:
      return "all rows";
  }
}

}  // namespace headrace::attention
