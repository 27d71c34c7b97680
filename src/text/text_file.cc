// SPDX-License-Identifier: Apache-2.0
#include "text/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

namespace headrace::text {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 30;

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return not_found(fmt::format("{}: no such file; check the path", path.string()));
  }
  const uintmax_t num_bytes = std::filesystem::file_size(path, error);
  if (error) return invalid_data(fmt::format("{}: {}", path.string(), error.message()));
  if (num_bytes > kMaxFileBytes) {
    return invalid_data(
        fmt::format("{}: {} bytes is too large for this kind of file", path.string(), num_bytes));
  }
  std::string content(num_bytes, '\0');
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(content.data(), static_cast<std::streamsize>(num_bytes))) {
    return invalid_data(fmt::format("{}: cannot be read; check its permissions", path.string()));
  }
  return content;
}

}  // namespace headrace::text
