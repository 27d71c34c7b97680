// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error of the program: who may write what, and in which dress.
// Output is text the user asked for; everything else is a message.
#pragma once

#include <string>
#include <string_view>

namespace headrace::cli {

// Colour and progress: only on a terminal that understands it, and never with NO_COLOR set.
bool wants_colour(bool is_terminal, const char* no_color, const char* term);

// Control characters other than line break and tab as U+FFFD, so that a text cannot steer the
// terminal it is shown on. Valid UTF-8 in, valid UTF-8 out; every other code point stays.
std::string printable(std::string_view utf8);

// Opens standard streams that the parent left closed, so that no file takes their number: the
// output then fails with a clear error instead of being written into a model file.
void open_missing_standard_streams();

// Standard output. Blocks only where an interrupt can end it.
class Output {
 public:
  enum class Result {
    kOk,
    kClosed,       // the reader has gone: end quietly
    kInterrupted,  // `interrupt_fd` became readable before all was written
    kFailed,       // see error()
  };

  // `interrupt_fd` < 0: nothing interrupts.
  explicit Output(int fd, int interrupt_fd = -1);

  // Control characters are replaced if this is a terminal.
  Result write(std::string_view utf8);
  // Ends the text with a line break if it is not empty and has none.
  Result end_line();
  // True once the reader of a pipe has gone, without writing to it.
  bool reader_gone() const;

  bool is_terminal() const { return is_terminal_; }
  // "cannot write to standard output: No space left on device (/dev/full)".
  const std::string& error() const { return error_; }

 private:
  Result write_bytes(std::string_view bytes);

  int fd_;
  int interrupt_fd_;
  bool is_terminal_;
  char last_byte_ = '\n';
  std::string error_;
};

// "headrace: error: …" on standard error, in red where colour is wanted.
void print_error(std::string_view message);
// A line on standard error, dimmed where colour is wanted.
void print_note(std::string_view message);

// A line such as "loading models/demo" that stands on standard error while this object lives; on
// anything but a terminal there is none.
class ProgressLine {
 public:
  explicit ProgressLine(std::string_view text);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  bool shown_;
};

}  // namespace headrace::cli
