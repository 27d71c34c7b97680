// SPDX-License-Identifier: Apache-2.0
#include "cli/text_input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace headrace::cli {
namespace {

// More than any context holds; an endless device must not fill the memory.
constexpr size_t kMaxTextBytes = size_t{64} << 20;

Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count == 0) return text;
    if (count < 0) {
      if (errno == EINTR) continue;
      return invalid_data(fmt::format("cannot read {}: {}", name, std::strerror(errno)));
    }
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kMaxTextBytes) {
      return invalid_data(
          fmt::format("{} holds more than {} MiB: give a shorter text", name, kMaxTextBytes >> 20));
    }
  }
}

}  // namespace

Result<std::string> read_text(const TextSource& source, const std::string& what) {
  switch (source.kind) {
    case TextSource::Kind::kNone:
      return std::string();
    case TextSource::Kind::kLiteral:
      return source.value;
    case TextSource::Kind::kStdin:
      if (isatty(STDIN_FILENO) == 1) {
        return invalid_argument(
            fmt::format("no {} given, and standard input is a terminal: see --help", what));
      }
      return read_all(STDIN_FILENO, "standard input");
    case TextSource::Kind::kFile:
      break;
  }
  const int fd = open(source.value.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string message =
        fmt::format("cannot open the {} file {}: {}", what, source.value, std::strerror(errno));
    return errno == ENOENT ? not_found(message) : invalid_data(message);
  }
  Result<std::string> text = read_all(fd, source.value);
  close(fd);
  return text;
}

}  // namespace headrace::cli
