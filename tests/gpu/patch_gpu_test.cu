// SPDX-License-Identifier: Apache-2.0
// The patch ring on the GPU: one captured graph is launched thousands of times while a host thread
// writes records into mapped memory at times of its own. Every sequence must say what its tokens,
// pages, slot and blob make it say; what the host did meanwhile is patch_test_host.h's business.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "metadata/arena.h"
#include "metadata/cuda/advance_kernel.h"
#include "metadata/cuda/build_kernel.h"
#include "metadata/cuda/patch_kernel.h"
#include "metadata/patch_rules.h"
#include "metadata/patch_test_host.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/cuda_stream.h"
#include "tensor/cuda/mapped_memory.h"
#include "tests/gpu/attention_problem.h"

namespace headrace::metadata {
namespace {

using attention::check_status;
using attention::value_of;
using test_model::Emitted;
using test_model::Model;
using test_model::TestHost;
using test_model::TestHostOptions;

constexpr int32_t kRows = 13;
constexpr int32_t kDelaysUs = 20;

struct Log {
  Emitted* emitted = nullptr;    // [max_steps, R] token −1: none
  int32_t* num_steps = nullptr;  // [1]
  uint64_t* progress = nullptr;  // [R] mapped
  int32_t max_steps = 0;
};

// A thread a row; a step lasts up to kDelaysUs longer, by its number.
__global__ void model_kernel(Model model, PatchQueue queue, Log log, bool delays) {
  const int32_t r = static_cast<int32_t>(threadIdx.x);
  const int32_t step = *log.num_steps;
  __syncthreads();
  if (r == 0) *log.num_steps = step + 1;
  const uint32_t generation = queue.generation[r];
  const int32_t token = test_model::run_row(model, r);
  if (step < log.max_steps) {
    log.emitted[step * kRows + r] = {r, generation, model.step.seq_len[r], token};
  }
  if (model.step.query_len[r] > 0) {
    store_relaxed_system(log.progress + r,
                         test_model::progress_of(generation, model.step.seq_len[r]));
  }
  if (delays && r == 0) {
    const uint32_t micros = test_model::mix(7, step) % (kDelaysUs + 1);
    for (uint32_t i = 0; i < micros; ++i) __nanosleep(1000);
  }
}

class Loop {
 public:
  Loop(const PatchShape& shape, const TestHostOptions& options, int32_t max_steps)
      : max_steps_(max_steps),
        limits_{.max_rows = kRows,
                .max_tokens = kRows + shape.max_set_tokens,
                .max_pages_per_row = 6,
                .page_size = 8},
        arena_(value_of(StepArena::create(Device::kCuda, limits_))),
        patches_(value_of(PatchArena::create(Device::kCuda, limits_, shape))),
        ring_memory_(value_of(MappedMemory::allocate(patch_ring_bytes(shape)))),
        progress_(value_of(MappedMemory::allocate(kRows * sizeof(uint64_t)))),
        log_(words(max_steps * kRows * sizeof(Emitted) / 4)),
        num_steps_(words(1)),
        ids_(words(limits_.max_tokens)),
        sampled_(words(limits_.max_tokens)),
        next_token_(words(kRows)),
        stalled_(words(kRows)),
        ended_(words(kRows)),
        cache_(words((options.num_pages + 1) * limits_.page_size)),
        states_(words(options.num_slots + 1)),
        stream_(value_of(CudaStream::create())),
        side_(value_of(CudaStream::create())),
        host_(patch_ring_at(ring_memory_.host_data(), shape), limits_, shape,
              static_cast<uint64_t*>(progress_.host_data()), options) {
    const int32_t rows = kRows;
    check(cudaMemcpy(arena_.input().num_rows, &rows, 4, cudaMemcpyHostToDevice), "num_rows");
    check(cudaMemcpy(arena_.input().padded_rows, &rows, 4, cudaMemcpyHostToDevice), "padded_rows");
    check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), "cudaEventCreate");
    check_status(launch_build(stream_.handle(), arena_.input(), arena_.arrays()));
    check_status(stream_.synchronize());
  }
  ~Loop() {
    cudaEventDestroy(fork_);
    cudaEventDestroy(join_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  TestHost& host() { return host_; }

  void capture(const PatchShape& shape, bool delays) {
    const PatchParams patch = patches_.params(patch_ring_at(ring_memory_.device_data(), shape));
    const AdvanceParams advance{.input = arena_.input(),
                                .step = arena_.view(),
                                .sampled = sampled_.as<int32_t>(),
                                .next_token = next_token_.as<int32_t>(),
                                .stalled = stalled_.as<int32_t>(),
                                .ended = ended_.as<uint8_t>()};
    const PlaceTokensParams place{.step = arena_.view(),
                                  .next_token = next_token_.as<int32_t>(),
                                  .token_ids = ids_.as<int32_t>()};
    const Model model{.step = arena_.view(),
                      .token_ids = ids_.as<int32_t>(),
                      .blobs = patch.queue.blobs,
                      .cache = cache_.as<int32_t>(),
                      .states = states_.as<uint32_t>(),
                      .sampled = sampled_.as<int32_t>(),
                      .ended = ended_.as<uint8_t>()};
    const Log log{log_.as<Emitted>(), num_steps_.as<int32_t>(),
                  static_cast<uint64_t*>(progress_.device_data()), max_steps_};
    check_status(stream_.begin_capture());
    check_status(launch_advance_and_apply(stream_.handle(), advance, patch));
    check(cudaEventRecord(fork_, stream_.handle()), "cudaEventRecord");
    check(cudaStreamWaitEvent(side_.handle(), fork_, 0), "cudaStreamWaitEvent");
    check_status(launch_fetch_patches(side_.handle(), patch));
    check(cudaEventRecord(join_, side_.handle()), "cudaEventRecord");
    check_status(launch_build(stream_.handle(), arena_.input(), arena_.arrays()));
    check_status(launch_place_tokens(stream_.handle(), with_patches(place, patch)));
    model_kernel<<<1, kRows, 0, stream_.handle()>>>(model, patch.queue, log, delays);
    check(cudaGetLastError(), "launch of the model");
    check(cudaStreamWaitEvent(stream_.handle(), join_, 0), "cudaStreamWaitEvent");
    graph_.emplace(value_of(stream_.end_capture()));
  }
  void launch() { check_status(stream_.launch(*graph_)); }
  void wait() { check_status(stream_.synchronize()); }

  std::vector<Emitted> emitted() {
    std::vector<Emitted> all(static_cast<size_t>(max_steps_ * kRows));
    check(cudaMemcpy(all.data(), log_.data(), all.size() * sizeof(Emitted), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    std::vector<Emitted> some;
    for (const Emitted& e : all) {
      if (e.token >= 0 && e.seq_len > 0) some.push_back(e);
    }
    return some;
  }

 private:
  static Buffer words(size_t count) {
    return value_of(Buffer::allocate_zeroed(Device::kCuda, count * 4));
  }
  static void check(cudaError_t error, const char* call) { check_status(cuda_status(error, call)); }

  int32_t max_steps_;
  Limits limits_;
  StepArena arena_;
  PatchArena patches_;
  MappedMemory ring_memory_, progress_;
  Buffer log_, num_steps_, ids_, sampled_, next_token_, stalled_, ended_, cache_, states_;
  CudaStream stream_, side_;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  TestHost host_;
  std::optional<CudaGraph> graph_;
};

void spin_us(int micros) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(micros);
  while (std::chrono::steady_clock::now() < until) {
  }
}

struct Seen {
  uint64_t records = 0, late = 0, stalled = 0;
  int full = 0, finished = 0;
  size_t tokens = 0;
};

void stress(const PatchShape& shape, TestHostOptions options, int32_t num_steps, int pause_us,
            Seen* seen) {
  Loop loop(shape, options, num_steps);
  loop.capture(shape, pause_us > 0);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937 random(options.seed);
    while (!stop.load(std::memory_order_relaxed)) {
      loop.host().act();
      if (pause_us > 0 && random() % 4 == 0) spin_us(static_cast<int>(random() % pause_us));
    }
  });
  for (int32_t i = 0; i < num_steps; ++i) {
    loop.launch();
    if (i % 16 == 15) loop.wait();  // else the launches, and not the writer, set the pace
  }
  loop.wait();
  stop = true;
  writer.join();

  PatchWriter& host = loop.host().writer();
  ASSERT_EQ(loop.host().error(), "");
  EXPECT_EQ(host.steps_started(), static_cast<uint64_t>(num_steps));
  EXPECT_EQ(host.num_stale(), 0u);
  EXPECT_EQ(host.num_rejected(), 0u);
  const std::vector<Emitted> emitted = loop.emitted();
  ASSERT_EQ(test_model::check_emitted(loop.host(), emitted), "");
  seen->records += host.num_consumed();
  seen->late += host.num_late();
  seen->stalled += host.num_stalled();
  seen->full += loop.host().num_full();
  seen->finished += loop.host().num_finished();
  seen->tokens += emitted.size();
}

void print(const char* name, const Seen& seen) {
  std::printf(
      "%s: %zu tokens, %d sequences to their end, %llu records, %llu late, %d times full, "
      "%llu row-steps without pages\n",
      name, seen.tokens, seen.finished, static_cast<unsigned long long>(seen.records),
      static_cast<unsigned long long>(seen.late), seen.full,
      static_cast<unsigned long long>(seen.stalled));
}

TEST(PatchGpu, SequencesSayWhatTheyMustWhileAHostThreadWrites) {
  Seen seen;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    stress({.record_capacity = 64, .word_capacity = 1024, .blob_words = 2, .max_set_tokens = 40},
           {.seed = seed, .num_pages = 60, .num_slots = 20}, 4000, 30, &seen);
  }
  print("paced", seen);
  EXPECT_GT(seen.finished, 500);
  EXPECT_GT(seen.late, 100u);
  EXPECT_GT(seen.stalled, 100u);
}

TEST(PatchGpu, ASmallRingThatIsOftenFull) {
  Seen seen;
  for (uint32_t seed = 11; seed <= 14; ++seed) {
    stress({.record_capacity = 8, .word_capacity = 64, .blob_words = 2, .max_set_tokens = 17},
           {.seed = seed, .num_pages = 60, .num_slots = 20}, 4000, 0, &seen);
  }
  print("full", seen);
  EXPECT_GT(seen.finished, 500);
  EXPECT_GT(seen.full, 1000);
}

// The host waits for each step: its records come in time, and nothing runs beside it.
TEST(PatchGpu, HostAndDeviceInTurns) {
  const PatchShape shape{
      .record_capacity = 64, .word_capacity = 1024, .blob_words = 2, .max_set_tokens = 400};
  Loop loop(shape, {.seed = 5, .num_pages = 60, .num_slots = 20}, 1000);
  loop.capture(shape, false);
  for (int i = 0; i < 1000; ++i) {
    for (int k = 0; k < 16; ++k) loop.host().act();
    loop.launch();
    loop.wait();
  }
  ASSERT_EQ(loop.host().error(), "");
  const std::vector<Emitted> emitted = loop.emitted();
  ASSERT_EQ(test_model::check_emitted(loop.host(), emitted), "");
  EXPECT_GT(loop.host().num_finished(), 100);
}

}  // namespace
}  // namespace headrace::metadata
