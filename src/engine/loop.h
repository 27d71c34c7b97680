// SPDX-License-Identifier: Apache-2.0
// The engine without its thread: queues, pools, plan, run, commit, one step a call. It owns all
// mutable state of the requests and is used by one thread only. It knows nothing of mailboxes and
// of how the caller waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/page_pool.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/slot_pool.h"
#include "headrace/metrics.h"
#include "headrace/request.h"
#include "headrace/tokenizer.h"

namespace headrace::engine {

using Clock = std::chrono::steady_clock;

// A request from submit() to its last update.
struct LiveRequest {
  LiveRequest(Sequence sequence_in, UpdateCallback callback_in,
              std::shared_ptr<const Tokenizer> tokenizer);

  Sequence sequence;
  UpdateCallback callback;
  std::optional<StreamingDetokenizer> detokenizer;  // none without a tokenizer
  Clock::time_point submitted = Clock::now();
  std::optional<Clock::time_point> first_scheduled;
  std::optional<Clock::time_point> first_token;
};

struct LoopHooks {
  // A request was admitted for the first time, or ended before that.
  std::function<void()> left_queue;
  // After the state changed and before the callbacks hear of it.
  std::function<void(const MetricsSnapshot&)> publish;
};

class EngineLoop {
 public:
  // `runner` must outlive the loop and have room for what the options say.
  EngineLoop(Runner& runner, const SchedulerLimits& limits, int32_t vocab_size, int32_t num_pages,
             int32_t num_slots, LoopHooks hooks);

  void add(std::unique_ptr<LiveRequest> request);
  // Ends the request with kCancelled; nothing happens if it is not here (any more).
  void cancel(RequestId id);
  void cancel_all();
  bool has_work() const { return !running_.empty() || !waiting_.empty(); }
  // One step of the model for whoever is scheduled; their callbacks are called at its end. A broken
  // invariant fails the requests of the step and leaves the others alone. There must be work.
  void step();

  MetricsSnapshot metrics() const;
  PagePool& pages() { return pages_; }
  SlotPool& slots() { return slots_; }

 private:
  // What the callback of a request is to hear at the end of the step. Whoever is finished is not in
  // the queues any more and is kept alive here.
  struct Delivery {
    LiveRequest* request = nullptr;
    std::unique_ptr<LiveRequest> finished;
    std::optional<int32_t> token;
    FinishReason finish = FinishReason::kNone;
    Status status;
  };

  void plan();
  void preempt_planned();
  void admit_planned();
  void prepare_rows();
  void commit(std::span<const int32_t> sampled);
  void count_step(double seconds);
  void fail_step(const std::string& what);
  void finish(std::unique_ptr<LiveRequest> request, std::optional<int32_t> token,
              FinishReason reason, Status status);
  void release(Running held);
  void publish_and_deliver();
  void deliver(Delivery& delivery);

  Runner& runner_;
  SchedulerLimits limits_;
  int32_t vocab_size_;
  PagePool pages_;
  SlotPool slots_;
  LoopHooks hooks_;

  std::vector<std::unique_ptr<LiveRequest>> running_;  // the oldest first
  std::deque<std::unique_ptr<LiveRequest>> waiting_;   // preempted ones stand in front
  MetricsSnapshot counters_;

  // Of the current step; kept so that a step allocates nothing.
  std::vector<SequenceLengths> running_lengths_;
  std::vector<SequenceLengths> waiting_lengths_;
  StepPlan plan_;
  std::vector<RunnerRow> rows_;
  std::vector<Delivery> deliveries_;
  RequestUpdate update_;
};

}  // namespace headrace::engine
