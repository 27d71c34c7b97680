// SPDX-License-Identifier: Apache-2.0
// What --json prints: one object in one line. docs/cli.md describes the members; they are only
// ever added to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/generation.h"
#include "cli/options.h"
#include "headrace/device_report.h"
#include "headrace/tokenizer.h"

namespace headrace::cli {

std::string generation_json(const GenerateOptions& options,
                            const std::vector<int32_t>& prompt_token_ids,
                            const Generation& generation, double load_s);
std::string tokens_json(const std::string& text, const std::vector<int32_t>& token_ids,
                        const Tokenizer& tokenizer);
std::string device_json(const DeviceReport& report, const std::vector<std::string>& failures);

}  // namespace headrace::cli
