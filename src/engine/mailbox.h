// SPDX-License-Identifier: Apache-2.0
// What callers tell the engine thread, in order. The thread looks at one atomic flag a step and
// takes the lock only when there is mail, so that a steady step shares no lock with anybody. The
// number of submissions in it is bounded by the engine's queue limit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "engine/loop.h"

namespace headrace::engine {

struct CancelMail {
  RequestId id = 0;
};
struct StopMail {};
using Mail = std::variant<std::unique_ptr<LiveRequest>, CancelMail, StopMail>;

class Mailbox {
 public:
  void post(Mail mail) {
    {
      std::lock_guard lock(mutex_);
      mail_.push_back(std::move(mail));
      has_mail_.store(true, std::memory_order_release);
    }
    arrived_.notify_one();
  }

  // Swaps what has come into `mail`, which must be empty. With `wait`, sleeps until there is some.
  void take(std::vector<Mail>& mail, bool wait) {
    if (!wait && !has_mail_.load(std::memory_order_acquire)) return;
    std::unique_lock lock(mutex_);
    if (wait) arrived_.wait(lock, [this] { return !mail_.empty(); });
    mail.swap(mail_);
    has_mail_.store(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> has_mail_{false};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Mail> mail_;  // guarded by mutex_
};

}  // namespace headrace::engine
