// SPDX-License-Identifier: Apache-2.0
#include "cli/generation.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace headrace::cli {
namespace {

// Updates on their way from the engine thread, which must not wait for a slow terminal, to the
// thread that writes them.
class UpdateQueue {
 public:
  UpdateQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~UpdateQueue() { close(fd_); }
  UpdateQueue(const UpdateQueue&) = delete;
  UpdateQueue& operator=(const UpdateQueue&) = delete;

  void push(const RequestUpdate& update) {
    std::lock_guard lock(mutex_);
    updates_.push_back(update);
    eventfd_write(fd_, 1);
  }

  std::vector<RequestUpdate> take() {
    std::lock_guard lock(mutex_);
    eventfd_t ignored = 0;
    eventfd_read(fd_, &ignored);
    return std::exchange(updates_, {});
  }

  // Readable while updates wait.
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::mutex mutex_;
  std::vector<RequestUpdate> updates_;
};

void add_update(const RequestUpdate& update, Generation& generation) {
  generation.text += update.text;
  generation.token_ids.insert(generation.token_ids.end(), update.token_ids.begin(),
                              update.token_ids.end());
  generation.statistics = {update.num_prompt_tokens, update.num_generated_tokens, update.timings,
                           update.finish};
  if (update.finish == FinishReason::kError) generation.status = update.status;
}

// False if nothing more is to be written.
bool note_write(Output::Result result, const Output& output, Generation& generation) {
  if (result == Output::Result::kClosed) generation.output_closed = true;
  if (result == Output::Result::kFailed) {
    generation.status = Status(StatusCode::kInternal, output.error());
  }
  return result == Output::Result::kOk;
}

}  // namespace

Generation run_request(Engine& engine, Request request, bool streaming, Output& output,
                       const Interrupts& interrupts) {
  Generation generation;
  UpdateQueue queue;
  const auto id = engine.submit(std::move(request),
                                [&queue](const RequestUpdate& update) { queue.push(update); });
  if (!id.ok()) {
    generation.status = id.status();
    return generation;
  }
  bool writing = streaming;
  bool cancelled = false;
  const auto cancel = [&] {
    if (!std::exchange(cancelled, true)) engine.cancel(*id);
  };
  while (generation.statistics.finish == FinishReason::kNone) {
    // A noted signal keeps its descriptor readable: look at it once only.
    pollfd entries[2] = {{queue.fd(), POLLIN, 0},
                         {generation.signal == 0 ? interrupts.signal_fd() : -1, POLLIN, 0}};
    poll(entries, 2, -1);
    if (generation.signal == 0 && interrupts.signal() != 0) {
      generation.signal = interrupts.signal();
      cancel();
    }
    for (const RequestUpdate& update : queue.take()) {
      add_update(update, generation);
      if (writing) writing = note_write(output.write(update.text), output, generation);
    }
    if (output.reader_gone()) {
      generation.output_closed = true;
      writing = false;
    }
    if (generation.output_closed || writing != streaming) cancel();
  }
  if (writing) note_write(output.end_line(), output, generation);
  return generation;
}

}  // namespace headrace::cli
