// SPDX-License-Identifier: Apache-2.0
// Reads a whole file of a model folder.
#pragma once

#include <filesystem>
#include <string>

#include "headrace/status.h"

namespace headrace::text {

// kNotFound if there is no such file, kInvalidData if it cannot be read or is over 1 GiB.
Result<std::string> read_text_file(const std::filesystem::path& path);

}  // namespace headrace::text
