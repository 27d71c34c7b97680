// SPDX-License-Identifier: Apache-2.0
// Reads the text that a command works on, byte for byte.
#pragma once

#include <string>

#include "cli/options.h"
#include "headrace/status.h"

namespace headrace::cli {

// `what` names the text in messages, e.g. "prompt". Standard input is refused if it is a terminal.
Result<std::string> read_text(const TextSource& source, const std::string& what);

}  // namespace headrace::cli
