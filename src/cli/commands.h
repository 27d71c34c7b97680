// SPDX-License-Identifier: Apache-2.0
// The commands: each takes its checked options, does its work and returns the exit code.
#pragma once

#include <string_view>

#include "cli/console.h"
#include "cli/interrupts.h"
#include "cli/options.h"

namespace headrace::cli {

int generate(const GenerateOptions& options, Interrupts& interrupts);
int tokenize(const TokenizeOptions& options);
int doctor(const DoctorOptions& options);

// Prints the error and returns its exit code.
int fail(const Status& status);
// Writes a whole output and returns the exit code; a reader that has gone gets no message.
int print_output(std::string_view text);

}  // namespace headrace::cli
