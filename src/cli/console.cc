// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace headrace::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEraseLine = "\r\033[K";

// Messages are best effort: there is nowhere to report that they could not be written.
void write_message(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

bool stderr_wants_colour() {
  return wants_colour(isatty(STDERR_FILENO) == 1, std::getenv("NO_COLOR"), std::getenv("TERM"));
}

// " (/dev/full)", or nothing where the system does not tell.
std::string where_is(int fd) {
  char path[PATH_MAX];
  const ssize_t size = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof(path));
  if (size <= 0) return {};
  return fmt::format(" ({})", std::string_view(path, static_cast<size_t>(size)));
}

}  // namespace

bool wants_colour(bool is_terminal, const char* no_color, const char* term) {
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term == nullptr || *term == '\0' || std::strcmp(term, "dumb") == 0;
  return is_terminal && !refused && !dumb;
}

std::string printable(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    // U+0080 to U+009F, which some terminals obey like ESC sequences.
    const bool c1 =
        byte == 0xC2 && i + 1 < utf8.size() && static_cast<unsigned char>(utf8[i + 1]) < 0xA0;
    if (c0 || c1) {
      out += kReplacement;
    } else {
      out += utf8[i];
    }
    if (c1) ++i;
  }
  return out;
}

void open_missing_standard_streams() {
  // open() takes the lowest free number, which is the missing one. Output opened for reading only
  // fails at its first write, as a closed one would.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) std::_Exit(1);
  }
}

Output::Output(int fd, int interrupt_fd)
    : fd_(fd), interrupt_fd_(interrupt_fd), is_terminal_(isatty(fd) == 1) {}

Output::Result Output::write(std::string_view utf8) {
  if (utf8.empty()) return Result::kOk;
  return is_terminal_ ? write_bytes(printable(utf8)) : write_bytes(utf8);
}

Output::Result Output::end_line() { return last_byte_ == '\n' ? Result::kOk : write_bytes("\n"); }

bool Output::reader_gone() const {
  pollfd entry{fd_, 0, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & (POLLERR | POLLHUP)) != 0;
}

Output::Result Output::write_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    // Waiting happens in poll, where an interrupt is seen. A pipe that polls as writable takes
    // PIPE_BUF bytes without blocking.
    pollfd entries[2] = {{fd_, POLLOUT, 0}, {interrupt_fd_, POLLIN, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) {
      error_ = fmt::format("cannot wait for standard output: {}", std::strerror(errno));
      return Result::kFailed;
    }
    if (entries[0].revents == 0) {
      if (entries[1].revents != 0) return Result::kInterrupted;
      continue;
    }
    const ssize_t count = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (count < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      if (errno == EPIPE) return Result::kClosed;
      const std::string reason =
          errno == EBADF ? "it is closed" : std::string(std::strerror(errno)) + where_is(fd_);
      error_ = "cannot write to standard output: " + reason;
      return Result::kFailed;
    }
    if (count > 0) last_byte_ = bytes[static_cast<size_t>(count) - 1];
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return Result::kOk;
}

void print_error(std::string_view message) {
  const bool colour = stderr_wants_colour();
  write_message(fmt::format("headrace: {}error:{} {}\n", colour ? "\033[1;31m" : "",
                            colour ? "\033[0m" : "", message));
}

void print_note(std::string_view message) {
  const bool colour = stderr_wants_colour();
  write_message(fmt::format("{}{}{}\n", colour ? "\033[2m" : "", message, colour ? "\033[0m" : ""));
}

ProgressLine::ProgressLine(std::string_view text) : shown_(stderr_wants_colour()) {
  if (shown_) write_message(text);
}

ProgressLine::~ProgressLine() {
  if (shown_) write_message(kEraseLine);
}

}  // namespace headrace::cli
