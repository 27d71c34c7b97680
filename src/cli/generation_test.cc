// SPDX-License-Identifier: Apache-2.0
// run_request against an engine that plays a script, so that every order of events can be had.
#include "cli/generation.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;

RequestUpdate update(std::string text, std::vector<int32_t> ids, int32_t generated,
                     FinishReason finish = FinishReason::kNone) {
  RequestUpdate u;
  u.id = 7;
  u.text = std::move(text);
  u.token_ids = std::move(ids);
  u.num_prompt_tokens = 3;
  u.num_generated_tokens = generated;
  u.finish = finish;
  return u;
}

Request request() {
  Request three_tokens;
  three_tokens.prompt_token_ids = {1, 2, 3};
  return three_tokens;
}

// Plays updates on a thread of its own; after them it waits for cancel() if the script has no end.
class ScriptedEngine : public Engine {
 public:
  explicit ScriptedEngine(std::vector<RequestUpdate> script) : script_(std::move(script)) {}
  ~ScriptedEngine() override {
    if (thread_.joinable()) thread_.join();
  }

  Result<RequestId> submit(Request submitted, UpdateCallback callback) override {
    if (submitted.prompt_token_ids.empty()) return invalid_argument("no prompt");
    thread_ = std::thread([this, callback = std::move(callback)] {
      for (const RequestUpdate& u : script_) callback(u);
      if (!script_.empty() && script_.back().finish != FinishReason::kNone) return;
      if (after_script) after_script();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return cancels > 0; });
      callback(update("last", {}, 9, FinishReason::kCancelled));
    });
    return RequestId{7};
  }
  bool cancel(RequestId id) override {
    EXPECT_EQ(id, 7u);
    std::lock_guard lock(mutex_);
    ++cancels;
    changed_.notify_all();
    return true;
  }
  void wait_idle() override {}
  MetricsSnapshot metrics() const override { return {}; }
  const ModelInfo& model_info() const override { return info_; }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return nullptr; }
  Result<std::shared_ptr<const ChatTemplate>> chat_template() const override {
    return not_found("none");
  }
  const EngineOptions& resolved_options() const override { return options_; }

  std::function<void()> after_script;
  std::atomic<int> cancels{0};

 private:
  std::vector<RequestUpdate> script_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  ModelInfo info_;
  EngineOptions options_;
};

class RunRequest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(fds_), 0); }
  void TearDown() override {
    close(fds_[1]);
    if (fds_[0] >= 0) close(fds_[0]);
  }

  Generation run(ScriptedEngine& engine, bool streaming = true) {
    interrupts_.be_graceful();
    Output output(fds_[1], interrupts_.signal_fd());
    return run_request(engine, request(), streaming, output, interrupts_);
  }

  std::string written() {
    char buffer[4096];
    // A byte of its own, so that the read never waits.
    EXPECT_EQ(write(fds_[1], "$", 1), 1);
    const ssize_t count = read(fds_[0], buffer, sizeof(buffer));
    return {buffer, static_cast<size_t>(count) - 1};
  }

  Interrupts interrupts_;
  int fds_[2] = {-1, -1};
};

TEST_F(RunRequest, WritesTextAndEndsTheLine) {
  ScriptedEngine engine({update("In", {4}, 1), update("", {5}, 2), update(" the", {6}, 3),
                         update("", {2}, 4, FinishReason::kStop)});
  const Generation generation = run(engine);
  EXPECT_TRUE(generation.status.ok());
  EXPECT_EQ(generation.text, "In the");
  EXPECT_THAT(generation.token_ids, ElementsAre(4, 5, 6, 2));
  EXPECT_EQ(generation.statistics.num_prompt_tokens, 3);
  EXPECT_EQ(generation.statistics.num_generated_tokens, 4);
  EXPECT_EQ(generation.statistics.finish, FinishReason::kStop);
  EXPECT_EQ(generation.signal, 0);
  EXPECT_EQ(engine.cancels, 0);
  EXPECT_EQ(written(), "In the\n");
}

TEST_F(RunRequest, CollectsInSilenceWithoutStreaming) {
  ScriptedEngine engine({update("In", {4}, 1), update(" the", {6}, 2, FinishReason::kLength)});
  EXPECT_EQ(run(engine, /*streaming=*/false).text, "In the");
  EXPECT_EQ(written(), "");
}

TEST_F(RunRequest, ReportsARefusedRequest) {
  ScriptedEngine engine({});
  Output output(fds_[1]);
  const Generation generation = run_request(engine, {}, true, output, interrupts_);
  EXPECT_EQ(generation.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(generation.status.message(), "no prompt");
}

TEST_F(RunRequest, ReportsAFailedRequestAfterItsText) {
  RequestUpdate failed = update("", {}, 1, FinishReason::kError);
  failed.status = internal_error("broke");
  ScriptedEngine engine({update("In", {4}, 1), failed});
  const Generation generation = run(engine);
  EXPECT_EQ(generation.status.message(), "broke");
  EXPECT_EQ(written(), "In\n");
}

TEST_F(RunRequest, ASignalCancelsOnceAndKeepsTheRest) {
  for (int number : {SIGINT, SIGTERM}) {
    Interrupts interrupts;
    interrupts.be_graceful();
    ScriptedEngine engine({update("In ", {4}, 1)});
    engine.after_script = [number] { kill(getpid(), number); };
    Output output(fds_[1], interrupts.signal_fd());
    const Generation generation = run_request(engine, request(), true, output, interrupts);
    EXPECT_EQ(generation.signal, number);
    EXPECT_EQ(generation.statistics.finish, FinishReason::kCancelled);
    EXPECT_EQ(engine.cancels, 1);
    EXPECT_EQ(generation.text, "In last");
    EXPECT_EQ(written(), "In last\n");
  }
}

TEST_F(RunRequest, AClosedPipeCancels) {
  ScriptedEngine engine({update("In", {4}, 1)});
  close(fds_[0]);
  fds_[0] = -1;
  const Generation generation = run(engine);
  EXPECT_TRUE(generation.output_closed);
  EXPECT_TRUE(generation.status.ok());
  EXPECT_EQ(engine.cancels, 1);
}

TEST_F(RunRequest, AClosedPipeCancelsWithoutStreamingToo) {
  ScriptedEngine engine({update("In", {4}, 1)});
  close(fds_[0]);
  fds_[0] = -1;
  EXPECT_TRUE(run(engine, /*streaming=*/false).output_closed);
  EXPECT_EQ(engine.cancels, 1);
}

TEST_F(RunRequest, AnOutputThatFailsCancels) {
  ScriptedEngine engine({update("In", {4}, 1)});
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  Output output(full, interrupts_.signal_fd());
  const Generation generation = run_request(engine, request(), true, output, interrupts_);
  EXPECT_FALSE(generation.status.ok());
  EXPECT_FALSE(generation.output_closed);
  EXPECT_EQ(engine.cancels, 1);
  close(full);
}

// The reader sleeps and the pipe is full: Ctrl-C must end it all the same.
TEST_F(RunRequest, ASignalEndsAWriteThatNobodyReads) {
  ScriptedEngine engine({update(std::string(1 << 20, 'x'), {4}, 1)});
  engine.after_script = [] {
    usleep(50'000);
    kill(getpid(), SIGINT);
  };
  const Generation generation = run(engine);
  EXPECT_EQ(generation.signal, SIGINT);
  EXPECT_EQ(engine.cancels, 1);
}

TEST(Interrupts, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        interrupts.be_graceful();
        raise(SIGINT);
        if (interrupts.signal() != SIGINT) std::_Exit(1);
        raise(SIGINT);
        std::_Exit(2);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST(Interrupts, BeforeARequestTheFirstOneDoes) {
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        raise(SIGTERM);
        std::_Exit(2);
      },
      ::testing::ExitedWithCode(143), "");
}

TEST(Interrupts, LeavesAnIgnoredSignalIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGINT, SIG_IGN);
        Interrupts interrupts;
        raise(SIGINT);
        std::_Exit(interrupts.signal() == 0 ? 42 : 1);
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace headrace::cli
