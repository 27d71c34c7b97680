// SPDX-License-Identifier: Apache-2.0
// `headrace doctor`: asks the library about the machine and prints it.
#include "cli/commands.h"
#include "cli/doctor_report.h"
#include "cli/exit_codes.h"
#include "cli/json_reports.h"

namespace headrace::cli {

int doctor(const DoctorOptions& options) {
  const DeviceReport report = device_report();
  const std::vector<std::string> failures = essential_failures(report);
  const int code =
      print_output(options.json ? device_json(report, failures) : doctor_text(report, failures));
  if (code != kExitOk) return code;
  return failures.empty() ? kExitOk : kExitFailure;
}

}  // namespace headrace::cli
