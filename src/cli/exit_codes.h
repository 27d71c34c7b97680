// SPDX-License-Identifier: Apache-2.0
// What the program's exit code says. docs/cli.md and --help list the same numbers.
#pragma once

#include "headrace/status.h"

namespace headrace::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,      // it ran and failed: memory, writing the output, a broken invariant
  kExitUsage = 2,        // the command line, the environment or the prompt
  kExitModel = 3,        // the model folder or an input file: missing, broken or not supported
  kExitInterrupt = 130,  // Ctrl-C; 128 + SIGINT, as shells count
  kExitPipeClosed = 141  // who read the output has gone; 128 + SIGPIPE
};

// 128 + the signal's number: 130 for SIGINT, 143 for SIGTERM.
constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

constexpr int exit_code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kInvalidData:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
      return kExitModel;
    case StatusCode::kResourceExhausted:
    case StatusCode::kCancelled:
    case StatusCode::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

}  // namespace headrace::cli
