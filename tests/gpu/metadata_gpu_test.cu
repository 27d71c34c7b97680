// SPDX-License-Identifier: Apache-2.0
// The metadata built on the GPU equals the metadata built on the CPU, byte for byte: every array
// over its full size, the input and the gaps between arrays included. What the CPU derives is
// tested against an independent reference by BuildProperty.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "metadata/arena.h"
#include "metadata/build_split.h"
#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/cuda_stream.h"
#include "tests/support/random_steps.h"
#include "tests/support/step_builder.h"

namespace headrace::metadata {
namespace {

using test::Random;

// The value, or an exception that GoogleTest reports as a failure with its message.
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}
void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// An arena is one allocation that begins with num_rows and ends with pages_filled.
std::byte* begin_of(const StepArena& arena) {
  return reinterpret_cast<std::byte*>(arena.input().num_rows);
}
std::byte* derived_of(const StepArena& arena) {
  return reinterpret_cast<std::byte*>(arena.arrays().counts);
}
std::byte* end_of(const StepArena& arena) {
  return reinterpret_cast<std::byte*>(arena.arrays().pages_filled + arena.limits().max_rows);
}

// The array that holds a byte of the arena, for a message.
std::string array_at(const StepArena& arena, const std::byte* byte) {
  const StepInput& in = arena.input();
  const StepArrays& a = arena.arrays();
  const std::vector<std::pair<const void*, const char*>> arrays = {
      {in.num_rows, "input before counts"},
      {a.counts, "counts"},
      {a.kind, "kind"},
      {a.query_len, "query_len"},
      {a.context_len, "context_len"},
      {a.seq_len, "seq_len"},
      {a.query_start_i32, "query_start_i32"},
      {a.query_start_i64, "query_start_i64"},
      {a.pages_used, "pages_used"},
      {a.page_start, "page_start"},
      {a.last_page_len, "last_page_len"},
      {a.page_table, "page_table"},
      {a.initial_slot, "initial_slot"},
      {a.final_slot, "final_slot"},
      {a.has_initial_state, "has_initial_state"},
      {a.num_accepted, "num_accepted"},
      {a.decode_rows, "decode_rows"},
      {a.verify_rows, "verify_rows"},
      {a.prefill_rows, "prefill_rows"},
      {a.token_row, "token_row"},
      {a.token_position, "token_position"},
      {a.slot_mapping, "slot_mapping"},
      {a.token_permutation, "token_permutation"},
      {a.token_inverse, "token_inverse"},
      {a.chunk_start, "chunk_start"},
      {a.chunk_row, "chunk_row"},
      {a.chunk_token, "chunk_token"},
      {a.chunk_len, "chunk_len"},
      {a.logit_tokens, "logit_tokens"},
      {a.logit_start, "logit_start"},
      {a.split_workers, "split_workers"},
      {a.split_unit_start, "split_unit_start"},
      {a.split_partial_start, "split_partial_start"},
      {a.group_start, "group_start"},
      {a.pages_filled, "pages_filled"},
  };
  std::pair<const void*, const char*> found = arrays.front();
  for (const auto& array : arrays) {
    if (array.first <= byte && array.first >= found.first) found = array;
  }
  return std::string(found.second) + " + " +
         std::to_string(byte - static_cast<const std::byte*>(found.first)) + " bytes";
}

// The same limits on both devices, and one more split of another shape.
class Pair {
 public:
  Pair(const Limits& limits, const SplitShape& shape)
      : shape_(shape),
        cpu_(value_of(StepArena::create(Device::kCpu, limits))),
        gpu_(value_of(StepArena::create(Device::kCuda, limits))),
        cpu_split_(value_of(Buffer::allocate(
            Device::kCpu, static_cast<size_t>(split_arrays_bytes(limits, shape))))),
        gpu_split_(value_of(Buffer::allocate(Device::kCuda, split_bytes()))),
        pool_(1),
        cpu_stream_(pool_),
        stream_(value_of(CudaStream::create())),
        found_(static_cast<size_t>(end_of(cpu_) - begin_of(cpu_))),
        found_split_(split_bytes() / sizeof(int32_t)) {}

  const StepArena& cpu() const { return cpu_; }

  void capture() {
    check(stream_.begin_capture());
    submit();
    graph_.emplace(value_of(stream_.end_capture()));
  }

  // Both devices derive the step that lies in the CPU's input. Without `poison` the GPU's derived
  // arrays hold the last step.
  void step(bool poison) {
    if (poison) {
      test::poison_derived(cpu_);
      std::memset(cpu_split_.data(), 0xA5, split_bytes());
      upload(gpu_split_.data(), cpu_split_.data(), split_bytes());
    }
    const std::byte* stop = poison ? end_of(cpu_) : derived_of(cpu_);
    upload(begin_of(gpu_), begin_of(cpu_), static_cast<size_t>(stop - begin_of(cpu_)));
    if (graph_.has_value()) {
      check(stream_.launch(*graph_));
    } else {
      submit();
    }
    build(cpu_stream_, cpu_);
    build_split(cpu_stream_, cpu_.view(), shape_, cpu_arrays());
    download(found_.data(), begin_of(gpu_), found_.size());
    download(found_split_.data(), gpu_split_.data(), split_bytes());
    check(stream_.synchronize());
  }

  // Empty when all bytes are equal, else where the first differs.
  std::string mismatch() const {
    const std::byte* expected = begin_of(cpu_);
    if (std::memcmp(found_.data(), expected, found_.size()) != 0) {
      const auto at = std::mismatch(found_.begin(), found_.end(), expected).second;
      return array_at(cpu_, at);
    }
    const auto at =
        std::mismatch(found_split_.begin(), found_split_.end(), cpu_split_.as<int32_t>());
    if (at.first == found_split_.end()) return "";
    return "build_split entry " + std::to_string(at.first - found_split_.begin()) + ": " +
           std::to_string(*at.first) + ", expected " + std::to_string(*at.second);
  }

 private:
  size_t split_bytes() const { return cpu_split_.size_bytes(); }
  SplitArrays cpu_arrays() { return split_arrays_in(cpu_split_.data(), cpu_.limits(), shape_); }

  void submit() {
    check(launch_build(stream_.handle(), gpu_.input(), gpu_.arrays()));
    check(launch_build_split(stream_.handle(), gpu_.view(), shape_,
                             split_arrays_in(gpu_split_.data(), gpu_.limits(), shape_)));
  }
  void upload(void* to, const void* from, size_t bytes) {
    check(cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.handle()),
                      "cudaMemcpyAsync to the device"));
  }
  void download(void* to, const void* from, size_t bytes) {
    check(cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.handle()),
                      "cudaMemcpyAsync to the host"));
  }

  SplitShape shape_;
  StepArena cpu_;
  StepArena gpu_;
  Buffer cpu_split_;
  Buffer gpu_split_;
  ThreadPool pool_;
  CpuStream cpu_stream_;
  CudaStream stream_;
  std::optional<CudaGraph> graph_;
  std::vector<std::byte> found_;
  std::vector<int32_t> found_split_;
};

SplitShape random_shape(Random& random) {
  return SplitShape{random.in(1, 20), random.pick({1, 16, 100}),
                    random.pick({0, 1, 2, 17, 64, 300}), random.one_in(2)};
}

enum class Launch { kEager, kReplay };

// The kinds of row that the steps brought are added to `seen`.
void run_steps(Random& random, const Limits& limits, int steps, Launch launch, Counts* seen) {
  Pair pair(limits, random_shape(random));
  if (launch == Launch::kReplay) pair.capture();
  for (int i = 0; i < steps; ++i) {
    test::random_step(random, limits, pair.cpu().input());
    check(check_rows(pair.cpu()));
    // Every other replay finds what the step before left instead of poison.
    pair.step(launch == Launch::kEager || i % 2 == 0);
    ASSERT_EQ(pair.mismatch(), "") << "step " << i << ": " << test::describe_step(pair.cpu());
    const Counts& counts = *pair.cpu().view().counts;
    seen->num_decode_rows += counts.num_decode_rows;
    seen->num_verify_rows += counts.num_verify_rows;
    seen->num_prefill_rows += counts.num_prefill_rows;
    seen->num_padding_rows += counts.num_padding_rows;
  }
}

void run_arenas(Launch launch, uint64_t seed) {
  constexpr int kArenas = 120;
  constexpr int kStepsPerArena = 50;
  Random random(seed);
  Counts seen;
  for (int arena = 0; arena < kArenas; ++arena) {
    run_steps(random, test::random_limits(random), kStepsPerArena, launch, &seen);
    if (testing::Test::HasFatalFailure()) FAIL() << "arena " << arena;
  }
  // The generator must not have shrunk to steps of one kind.
  constexpr int kSteps = kArenas * kStepsPerArena;
  EXPECT_GT(seen.num_decode_rows, kSteps / 2);
  EXPECT_GT(seen.num_verify_rows, kSteps / 2);
  EXPECT_GT(seen.num_prefill_rows, kSteps);
  EXPECT_GT(seen.num_padding_rows, kSteps);
}

TEST(MetadataGpu, EagerStepsEqualTheCpus) { run_arenas(Launch::kEager, 11); }

TEST(MetadataGpu, ReplaysOfOneGraphEqualTheCpus) { run_arenas(Launch::kReplay, 12); }

// More rows than threads, than cached rows, than blocks; a page table row of many pieces.
TEST(MetadataGpu, LargeStepsEqualTheCpus) {
  Random random(13);
  Counts seen;
  for (const Limits& limits :
       {Limits{300, 1000, 65, 64, 0, 132, 64}, Limits{64, 4096, 9000, 16, 0, 264, 128},
        Limits{1024, 1500, 3, 256, 0, 7, 16}, Limits{1025, 1025, 3, 256, 0, 7, 16},
        Limits{2500, 4000, 5, 16, 0, 132, 64}}) {
    run_steps(random, limits, 8, Launch::kReplay, &seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.num_decode_rows, 400);
}

TEST(CudaStatus, NamesErrorAndCall) {
  const Status status = cuda_status(cudaErrorInvalidValue, "cudaExample");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "cudaErrorInvalidValue (invalid argument) from cudaExample");
  const Result<Buffer> huge = Buffer::allocate(Device::kCuda, size_t{1} << 50);
  EXPECT_EQ(huge.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(huge.status().message().find("cudaMalloc"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace headrace::metadata
