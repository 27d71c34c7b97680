// SPDX-License-Identifier: Apache-2.0
// The text of --help, made from the table of commands.
#pragma once

#include <string>

#include "cli/verbs.h"

namespace headrace::cli {

std::string program_help();
std::string verb_help(const VerbSpec& verb);

}  // namespace headrace::cli
