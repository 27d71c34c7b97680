// SPDX-License-Identifier: Apache-2.0
// Runs the program `headrace` as a user would, with pipes, files or terminals at its standard
// streams. Nothing of the surrounding environment that could change what it does gets through.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace headrace::test {

enum class StreamKind {
  kPipe,
  kTerminal,
  kFile,
  kClosed,
  kReaderGone  // a pipe that nobody reads any more
};

struct ProcessSetup {
  std::vector<std::string> args;
  std::map<std::string, std::string> environment;
  std::string input;  // what stdin holds, if it is a pipe
  StreamKind stdin_kind = StreamKind::kPipe;
  StreamKind stdout_kind = StreamKind::kPipe;
  StreamKind stderr_kind = StreamKind::kPipe;
  std::string stdout_path;  // with kFile
};

struct ProcessResult {
  int code = -1;           // exit code, or 128 + signal
  bool signalled = false;  // the signal itself ended it
  std::string out;
  std::string err;
};

class Process {
 public:
  explicit Process(const ProcessSetup& setup) {
    int in[2], out[2], err[2];
    make(setup.stdin_kind, in, /*child_reads=*/true, "");
    make(setup.stdout_kind, out, false, setup.stdout_path);
    make(setup.stderr_kind, err, false, "");
    const std::string program = binary_dir() + "/headrace";
    std::vector<const char*> argv = {program.c_str()};
    for (const std::string& arg : setup.args) argv.push_back(arg.c_str());
    argv.push_back(nullptr);
    std::map<std::string, std::string> environment = {{"PATH", "/usr/bin:/bin"}, {"TERM", "xterm"}};
    for (const auto& [name, value] : setup.environment) environment[name] = value;
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    std::vector<const char*> envp;
    for (const std::string& variable : variables) envp.push_back(variable.c_str());
    envp.push_back(nullptr);

    pid_ = fork();
    if (pid_ == 0) {
      place(in[0], STDIN_FILENO);
      place(out[1], STDOUT_FILENO);
      place(err[1], STDERR_FILENO);
      execve(program.c_str(), const_cast<char**>(argv.data()), const_cast<char**>(envp.data()));
      _exit(127);
    }
    for (int fd : {in[0], out[1], err[1]}) {
      if (fd >= 0) close(fd);
    }
    stdin_ = in[1];
    stdout_ = out[0];
    stderr_ = err[0];
    if (setup.stdin_kind == StreamKind::kPipe) {
      EXPECT_LT(setup.input.size(), 65536u) << "would not fit the pipe";
      EXPECT_EQ(write(stdin_, setup.input.data(), setup.input.size()),
                static_cast<ssize_t>(setup.input.size()));
      close_fd(stdin_);
    }
  }

  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    for (int* fd : {&stdin_, &stdout_, &stderr_}) close_fd(*fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) { kill(pid_, signal); }
  void close_stdout() { close_fd(stdout_); }

  // Waits until at least `size` bytes of standard output are there.
  void read_stdout(size_t size) {
    while (result_.out.size() < size && stdout_ >= 0) pump();
  }
  void wait_for_stderr(const std::string& text) {
    while (result_.err.find(text) == std::string::npos && stderr_ >= 0) pump();
  }
  bool running() {
    if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }

  ProcessResult finish() {
    while (stdout_ >= 0 || stderr_ >= 0) pump();
    if (pid_ > 0) {
      waitpid(pid_, &status_, 0);
      pid_ = -1;
    }
    result_.signalled = WIFSIGNALED(status_);
    result_.code = result_.signalled ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
    return result_;
  }

 private:
  // fds[0] is the reading end, fds[1] the writing end; -1 where there is none.
  static void make(StreamKind kind, int (&fds)[2], bool child_reads, const std::string& path) {
    fds[0] = fds[1] = -1;
    if (kind == StreamKind::kPipe || kind == StreamKind::kReaderGone) {
      ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
      if (kind == StreamKind::kReaderGone) close_fd(fds[0]);
    } else if (kind == StreamKind::kTerminal) {
      int master = -1, slave = -1;
      ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
      fcntl(master, F_SETFD, FD_CLOEXEC);
      fcntl(slave, F_SETFD, FD_CLOEXEC);
      fds[0] = child_reads ? slave : master;
      fds[1] = child_reads ? master : slave;
    } else if (kind == StreamKind::kFile) {
      fds[1] = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      ASSERT_GE(fds[1], 0) << path;
    }
  }

  static void place(int fd, int number) {
    if (fd < 0) {
      close(number);
    } else {
      dup2(fd, number);
    }
  }

  static void close_fd(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }

  static void read_some(int& fd, short revents, std::string& text) {
    if (revents == 0) return;
    char buffer[4096];
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count > 0) {
      text.append(buffer, static_cast<size_t>(count));
    } else {  // 0, or EIO of a terminal whose other end is closed
      close_fd(fd);
    }
  }

  void pump() {
    pollfd entries[2] = {{stdout_, POLLIN, 0}, {stderr_, POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - std::chrono::steady_clock::now());
    if (left.count() <= 0 || poll(entries, 2, static_cast<int>(left.count())) == 0) {
      ADD_FAILURE() << "the program did not end in time; it wrote: " << result_.out;
      kill(pid_, SIGKILL);
      close_fd(stdout_);
      close_fd(stderr_);
      return;
    }
    read_some(stdout_, entries[0].revents, result_.out);
    read_some(stderr_, entries[1].revents, result_.err);
  }

  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(120);
  pid_t pid_ = -1;
  int status_ = 0;
  int stdin_ = -1, stdout_ = -1, stderr_ = -1;
  ProcessResult result_;
};

inline ProcessResult run_headrace(const ProcessSetup& setup) { return Process(setup).finish(); }

inline ProcessResult run_headrace(const std::vector<std::string>& args,
                                  const std::string& input = {}) {
  ProcessSetup setup;
  setup.args = args;
  setup.input = input;
  return run_headrace(setup);
}

}  // namespace headrace::test
