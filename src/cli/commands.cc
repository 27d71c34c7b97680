// SPDX-License-Identifier: Apache-2.0
// What the commands share.
#include "cli/commands.h"

#include <unistd.h>

#include "cli/exit_codes.h"

namespace headrace::cli {

int fail(const Status& status) {
  print_error(status.message());
  return exit_code_of(status.code());
}

int print_output(std::string_view text) {
  Output output(STDOUT_FILENO);
  Output::Result result = output.write(text);
  if (result == Output::Result::kOk) result = output.end_line();
  switch (result) {
    case Output::Result::kOk:
      return kExitOk;
    case Output::Result::kClosed:
      return kExitPipeClosed;
    case Output::Result::kInterrupted:
      return kExitInterrupt;
    case Output::Result::kFailed:
      break;
  }
  print_error(output.error());
  return kExitFailure;
}

}  // namespace headrace::cli
