// SPDX-License-Identifier: Apache-2.0
// Loops of build → advance → build → place_tokens on the GPU give what they give on the CPU, byte
// for byte: eager, and as replays of one captured graph. What the CPU does is tested by
// advance_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "metadata/advance.h"
#include "metadata/arena.h"
#include "metadata/cuda/advance_kernel.h"
#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"
#include "tests/support/random_steps.h"

namespace headrace::metadata {
namespace {

using attention::check_status;
using attention::value_of;
using test::Random;

// What advance() and place_tokens() read and write besides the arena, one after another.
struct SideArrays {
  explicit SideArrays(const Limits& limits)
      : rows(limits.max_rows), tokens(limits.max_tokens), words(size()) {}
  int64_t size() const { return 2 * int64_t{tokens} + rows * (4 + int64_t{kMaxVerifyTokens}); }
  int32_t* sampled(int32_t* base) const { return base; }
  int32_t* token_ids(int32_t* base) const { return base + tokens; }
  int32_t* accepted(int32_t* base) const { return base + 2 * tokens; }
  int32_t* next_drafts(int32_t* base) const { return accepted(base) + rows; }
  int32_t* next_token(int32_t* base) const { return next_drafts(base) + rows; }
  int32_t* stalled(int32_t* base) const { return next_token(base) + rows; }
  int32_t* drafts(int32_t* base) const { return stalled(base) + rows; }

  AdvanceParams advance(const StepArena& arena, int32_t* base, bool with_drafts) const {
    return {.input = arena.input(),
            .step = arena.view(),
            .sampled = sampled(base),
            .accepted = accepted(base),
            .next_drafts = with_drafts ? next_drafts(base) : nullptr,
            .next_token = next_token(base),
            .stalled = stalled(base)};
  }
  PlaceTokensParams place(const StepArena& arena, int32_t* base) const {
    return {.step = arena.view(),
            .next_token = next_token(base),
            .drafts = drafts(base),
            .drafts_stride = kMaxVerifyTokens,
            .token_ids = token_ids(base)};
  }

  int32_t rows;
  int32_t tokens;
  std::vector<int32_t> words;
};

// An arena is one allocation that begins with num_rows and ends with pages_filled.
char* begin_of(const StepArena& arena) { return reinterpret_cast<char*>(arena.input().num_rows); }
size_t size_of(const StepArena& arena) {
  return static_cast<size_t>(
      reinterpret_cast<char*>(arena.arrays().pages_filled + arena.limits().max_rows) -
      begin_of(arena));
}

class Loop {
 public:
  Loop(const Limits& limits, bool with_drafts)
      : with_drafts_(with_drafts),
        cpu_(value_of(StepArena::create(Device::kCpu, limits))),
        gpu_(value_of(StepArena::create(Device::kCuda, limits))),
        side_(limits),
        gpu_side_(value_of(Buffer::allocate(Device::kCuda, side_.words.size() * 4))),
        pool_(1),
        cpu_stream_(pool_),
        stream_(value_of(CudaStream::create())) {}

  const StepArena& cpu() const { return cpu_; }
  SideArrays& side() { return side_; }

  void capture() {
    check_status(stream_.begin_capture());
    submit();
    graph_.emplace(value_of(stream_.end_capture()));
  }
  // The CPU's input and side arrays to the GPU; the first build of both.
  void start() {
    copy(begin_of(gpu_), begin_of(cpu_), size_of(cpu_), cudaMemcpyHostToDevice);
    check_status(launch_build(stream_.handle(), gpu_.input(), gpu_.arrays()));
    build(cpu_stream_, cpu_);
  }
  // Empty when all bytes are equal after the step.
  std::string step() {
    copy(gpu_side_.data(), side_.words.data(), gpu_side_.size_bytes(), cudaMemcpyHostToDevice);
    if (graph_.has_value()) {
      check_status(stream_.launch(*graph_));
    } else {
      submit();
    }
    int32_t* base = side_.words.data();
    advance(cpu_stream_, side_.advance(cpu_, base, with_drafts_));
    build(cpu_stream_, cpu_);
    place_tokens(cpu_stream_, side_.place(cpu_, base));

    std::vector<int32_t> found(side_.words.size());
    std::vector<char> arena(size_of(gpu_));
    copy(found.data(), gpu_side_.data(), gpu_side_.size_bytes(), cudaMemcpyDeviceToHost);
    copy(arena.data(), begin_of(gpu_), arena.size(), cudaMemcpyDeviceToHost);
    check_status(stream_.synchronize());
    if (found != side_.words) {
      const auto at = std::mismatch(found.begin(), found.end(), side_.words.begin()).first;
      return "side array word " + std::to_string(at - found.begin());
    }
    if (std::memcmp(arena.data(), begin_of(cpu_), arena.size()) != 0) return "the arenas differ";
    return "";
  }

 private:
  void submit() {
    auto* base = gpu_side_.as<int32_t>();
    check_status(launch_advance(stream_.handle(), side_.advance(gpu_, base, with_drafts_)));
    check_status(launch_build(stream_.handle(), gpu_.input(), gpu_.arrays()));
    check_status(launch_place_tokens(stream_.handle(), side_.place(gpu_, base)));
  }
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    check_status(
        cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream_.handle()), "cudaMemcpyAsync"));
  }

  bool with_drafts_;
  StepArena cpu_;
  StepArena gpu_;
  SideArrays side_;
  Buffer gpu_side_;
  ThreadPool pool_;
  CpuStream cpu_stream_;
  CudaStream stream_;
  std::optional<CudaGraph> graph_;
};

struct Seen {
  int advanced = 0;
  int stalled = 0;
  int verify = 0;
};

void run_loops(bool replay, uint64_t seed, Seen* seen) {
  Random random(seed);
  for (int arena = 0; arena < 60; ++arena) {
    Limits limits = test::random_limits(random);
    const bool with_drafts = random.one_in(2);
    // Drafts for every row must find room.
    if (with_drafts) {
      limits.max_tokens = std::max(limits.max_tokens, limits.max_rows * kMaxVerifyTokens);
    }
    Loop loop(limits, with_drafts);
    if (replay) loop.capture();
    SideArrays& side = loop.side();
    int32_t* base = side.words.data();
    for (int batch = 0; batch < 4; ++batch) {
      test::random_step(random, limits, loop.cpu().input());
      for (int32_t r = 0; r < limits.max_rows; ++r) {
        Row& row = loop.cpu().input().rows[r];
        if (!random.one_in(4)) row.flags |= kRowEmit | kRowSelfAdvance;
      }
      std::fill(side.stalled(base), side.stalled(base) + limits.max_rows, 0);
      loop.start();
      for (int step = 0; step < 12; ++step) {
        for (int32_t t = 0; t < limits.max_tokens; ++t) side.sampled(base)[t] = random.in(0, 999);
        for (int32_t r = 0; r < limits.max_rows; ++r) {
          side.accepted(base)[r] = random.in(-1, kMaxVerifyTokens + 1);
          side.next_drafts(base)[r] = random.in(0, kMaxVerifyTokens - 1);
        }
        ASSERT_EQ(loop.step(), "") << "arena " << arena << " batch " << batch << " step " << step
                                   << ": " << test::describe_step(loop.cpu());
        for (int32_t r = 0; r < limits.max_rows; ++r) {
          seen->stalled += side.stalled(base)[r] > 0 ? 1 : 0;
        }
        seen->advanced += loop.cpu().view().counts->num_decode_rows;
        seen->verify += loop.cpu().view().counts->num_verify_rows;
      }
    }
  }
}

TEST(AdvanceGpu, LoopsEqualTheCpus) {
  Seen seen;
  run_loops(false, 21, &seen);
  run_loops(true, 22, &seen);
  // The generator must not have shrunk to steps in which nothing happens.
  EXPECT_GT(seen.advanced, 1000);
  EXPECT_GT(seen.verify, 1000);
  EXPECT_GT(seen.stalled, 1000);
}

}  // namespace
}  // namespace headrace::metadata
