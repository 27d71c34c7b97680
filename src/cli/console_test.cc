// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

namespace headrace::cli {
namespace {

using ::testing::HasSubstr;

TEST(WantsColour, OnlyOnATerminalThatUnderstandsIt) {
  EXPECT_TRUE(wants_colour(true, nullptr, "xterm"));
  EXPECT_TRUE(wants_colour(true, "", "xterm")) << "an empty NO_COLOR says nothing";
  EXPECT_FALSE(wants_colour(false, nullptr, "xterm"));
  EXPECT_FALSE(wants_colour(true, "1", "xterm"));
  EXPECT_FALSE(wants_colour(true, "0", "xterm")) << "whatever its value";
  EXPECT_FALSE(wants_colour(true, nullptr, "dumb"));
  EXPECT_FALSE(wants_colour(true, nullptr, ""));
  EXPECT_FALSE(wants_colour(true, nullptr, nullptr));
}

TEST(Printable, KeepsTextAndDisarmsControls) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(printable("\u00e9 \u4e2d \U0001F600 \u00a0"), "\u00e9 \u4e2d \U0001F600 \u00a0");
  EXPECT_EQ(printable("\033[2J"), "\uFFFD[2J");
  EXPECT_EQ(printable("a\rb\x07\x7F"), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\uFFFD");
  // U+009B is a one-character CSI; U+00A0 is the first that is none.
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J"),
            "\uFFFD2J");
  EXPECT_EQ(printable("\xC2\x80\xC2\x9F\xC2\xA0"), "\uFFFD\uFFFD\u00a0");
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(fds_), 0); }
  ~Pipe() {
    close_reader();
    close(fds_[1]);
  }
  int writer() const { return fds_[1]; }
  void close_reader() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  std::string read_some() {
    std::string text(1 << 16, '\0');
    const ssize_t count = read(fds_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }

 private:
  int fds_[2] = {-1, -1};
};

class OutputTest : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }
};

TEST_F(OutputTest, WritesBytesUnchangedAndEndsTheLine) {
  Pipe pipe;
  Output output(pipe.writer());
  EXPECT_FALSE(output.is_terminal());
  EXPECT_EQ(output.end_line(), Output::Result::kOk);  // nothing written, nothing to end
  EXPECT_EQ(output.write("\033[2J"), Output::Result::kOk);
  EXPECT_EQ(output.end_line(), Output::Result::kOk);
  EXPECT_EQ(output.end_line(), Output::Result::kOk);
  EXPECT_EQ(pipe.read_some(), "\033[2J\n");
}

TEST_F(OutputTest, DisarmsControlsOnATerminal) {
  int master = -1, slave = -1;
  ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  Output output(slave);
  EXPECT_TRUE(output.is_terminal());
  EXPECT_EQ(output.write("a\033[2J"), Output::Result::kOk);
  char buffer[64];
  const ssize_t count = read(master, buffer, sizeof(buffer));
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(count)), "a\uFFFD[2J");
  close(slave);
  close(master);
}

TEST_F(OutputTest, SaysThatTheReaderHasGone) {
  Pipe pipe;
  Output output(pipe.writer());
  EXPECT_FALSE(output.reader_gone());
  pipe.close_reader();
  EXPECT_TRUE(output.reader_gone());
  EXPECT_EQ(output.write("x"), Output::Result::kClosed);
}

TEST_F(OutputTest, NamesAFullDevice) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  Output output(fd);
  EXPECT_FALSE(output.reader_gone());
  EXPECT_EQ(output.write("x"), Output::Result::kFailed);
  EXPECT_THAT(output.error(), HasSubstr("standard output"));
  EXPECT_THAT(output.error(), HasSubstr("No space left on device (/dev/full)"));
  close(fd);
}

TEST_F(OutputTest, NamesAClosedOutput) {
  const int fd = open("/dev/null", O_RDONLY);
  Output output(fd);
  EXPECT_EQ(output.write("x"), Output::Result::kFailed);
  EXPECT_THAT(output.error(), HasSubstr("it is closed"));
  close(fd);
}

// More than a pipe holds, and nobody reads: only the interrupt can end the wait.
TEST_F(OutputTest, AnInterruptEndsAWrite) {
  Pipe pipe;
  const int interrupt = eventfd(0, EFD_CLOEXEC);
  std::thread signaller([&] {
    usleep(50'000);
    eventfd_write(interrupt, 1);
  });
  Output output(pipe.writer(), interrupt);
  EXPECT_EQ(output.write(std::string(1 << 20, 'x')), Output::Result::kInterrupted);
  signaller.join();
  // The interrupt is noted already: what fits is still written.
  pipe.read_some();
  EXPECT_EQ(output.write("y"), Output::Result::kOk);
  close(interrupt);
}

TEST_F(OutputTest, WaitsForASlowReader) {
  Pipe pipe;
  const std::string text(300'000, 'x');
  size_t received = 0;
  std::thread reader([&] {
    while (received < text.size()) received += pipe.read_some().size();
  });
  Output output(pipe.writer());
  EXPECT_EQ(output.write(text), Output::Result::kOk);
  reader.join();
  EXPECT_EQ(received, text.size());
}

}  // namespace
}  // namespace headrace::cli
