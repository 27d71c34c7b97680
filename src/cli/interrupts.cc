// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupts.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <initializer_list>

#include "cli/exit_codes.h"

namespace headrace::cli {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<bool> g_graceful{false};
std::atomic<int> g_signal{0};
std::atomic<int> g_event_fd{-1};

void on_signal(int number) {
  const int saved_errno = errno;
  int none = 0;
  if (!g_graceful.load() || !g_signal.compare_exchange_strong(none, number)) {
    _exit(exit_code_of_signal(number));
  }
  const uint64_t one = 1;
  // Nothing can be done here about a failure, and an eventfd has none to report.
  [[maybe_unused]] const ssize_t written = write(g_event_fd.load(), &one, sizeof(one));
  errno = saved_errno;
}

void set_handler(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts() : signal_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  g_graceful = false;
  g_signal = 0;
  g_event_fd = signal_fd_;
  set_handler(SIGPIPE, SIG_IGN);
  for (int number : {SIGINT, SIGTERM}) {
    // A shell starts background jobs with SIGINT ignored; that is to stay so.
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) set_handler(number, on_signal);
  }
}

Interrupts::~Interrupts() {
  for (int number : {SIGINT, SIGTERM}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == on_signal) set_handler(number, SIG_DFL);
  }
  g_event_fd = -1;
  close(signal_fd_);
}

void Interrupts::be_graceful() { g_graceful = true; }

int Interrupts::signal() const { return g_signal; }

}  // namespace headrace::cli
