// SPDX-License-Identifier: Apache-2.0
// Runs one request on an engine and brings its text to standard output as it comes. Knows nothing
// of options, files or formats of a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/interrupts.h"
#include "cli/statistics.h"
#include "headrace/engine.h"
#include "headrace/status.h"

namespace headrace::cli {

struct Generation {
  std::string text;
  std::vector<int32_t> token_ids;
  GenerationStatistics statistics;
  int signal = 0;              // the signal that cut it short
  bool output_closed = false;  // the reader of standard output has gone
  // The request's error, or that the output could not be written.
  Status status;
};

// `streaming` false: nothing is written, the text is only collected. Returns when the request is
// done; an interrupt or a closed output cancels it first.
Generation run_request(Engine& engine, Request request, bool streaming, Output& output,
                       const Interrupts& interrupts);

}  // namespace headrace::cli
