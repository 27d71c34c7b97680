// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM. Before a request runs, a signal ends the program at once. While one runs the
// first signal is only noted, so that the request can be cancelled and the statistics printed; the
// second ends the program at once. SIGPIPE is ignored: a write then says that the reader has gone.
#pragma once

namespace headrace::cli {

class Interrupts {
 public:
  // Signal handlers belong to the process: one object at a time.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // From now on the first signal is noted instead of obeyed.
  void be_graceful();
  // The signal that was noted, or 0.
  int signal() const;

  // Readable from the moment a signal was noted, and it stays so.
  int signal_fd() const { return signal_fd_; }

 private:
  int signal_fd_;
};

}  // namespace headrace::cli
