// SPDX-License-Identifier: Apache-2.0
// Device time of the patch ring's kernels at 256 rows, and what the fetch adds to a step of some
// 100 µs when it lies on a branch beside it. One line a figure. Each figure is a graph of many
// calls in a row; where a call needs records, a kernel before it makes them new again, and is
// measured alone and taken off.
//
//   patch_bench [COMMIT]
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/bench_support.h"
#include "metadata/arena.h"
#include "metadata/cuda/advance_kernel.h"
#include "metadata/cuda/build_kernel.h"
#include "metadata/cuda/patch_kernel.h"
#include "metadata/patch_writer.h"
#include "tensor/cuda/mapped_memory.h"

namespace headrace::metadata {
namespace {

using bench::check;
using bench::value_of;

constexpr int32_t kRows = 256;
constexpr int32_t kPromptTokens = 128;
constexpr int32_t kBlobWords = 16;
constexpr int kCalls = 50;
constexpr int kNodes = 80;  // of the step that the fetch lies beside

__global__ void empty_kernel() {}

// As if nothing had been fetched; or, with `fetched`, as if nothing had been applied.
__global__ void renew_kernel(PatchQueue queue, bool fetched) {
  const auto r = static_cast<int32_t>(threadIdx.x);
  queue.first_pending[r] = fetched ? static_cast<uint64_t>(r) + 1 : 0;
  queue.generation[r] = 0;
  if (r == 0) {
    queue.state->step = 1;
    queue.state->fetched = fetched ? kRows : 0;
    queue.state->fetched_words = 0;
    queue.state->consumed = 0;
    queue.state->tokens_before = 0;
  }
}

// A node of a layer: reads and writes some memory of its own on every multiprocessor.
__global__ void layer_kernel(float* data) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  data[i] = data[i] * 0.5f + 1.0f;
}

class Bench {
 public:
  Bench()
      : limits_{.max_rows = kRows,
                .max_tokens = kRows * (kPromptTokens + 1),
                .max_pages_per_row = 1024,
                .page_size = 16},
        shape_{.record_capacity = kRows,
               .word_capacity = 1 << 16,
               .blob_words = kBlobWords,
               .max_set_tokens = kRows * kPromptTokens},
        arena_(value_of(StepArena::create(Device::kCuda, limits_))),
        patches_(value_of(PatchArena::create(Device::kCuda, limits_, shape_))),
        memory_(value_of(MappedMemory::allocate(patch_ring_bytes(shape_)))),
        side_words_(value_of(Buffer::allocate_zeroed(
            Device::kCuda, 4 * (3 * kRows + static_cast<size_t>(limits_.max_tokens))))),
        layer_data_(value_of(Buffer::allocate_zeroed(Device::kCuda, 4 * 132 * 256))),
        stream_(value_of(CudaStream::create())),
        side_(value_of(CudaStream::create())),
        patch_(patches_.params(patch_ring_at(memory_.device_data(), shape_))) {
    auto* words = side_words_.as<int32_t>();
    advance_ = {.input = arena_.input(),
                .step = arena_.view(),
                .sampled = words + 3 * kRows,
                .next_token = words,
                .stalled = words + kRows};
    const int32_t rows = kRows;
    check(cudaMemcpy(arena_.input().num_rows, &rows, 4, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), "cudaEventCreate");
  }

  void run(const std::string& facts) {
    const auto apply = [&] { check(launch_advance_and_apply(stream_.handle(), advance_, patch_)); };
    const auto fetch = [&] { check(launch_fetch_patches(stream_.handle(), patch_)); };
    const auto renew_fetched = [&] { renew(true); };
    const auto renew_all = [&] { renew(false); };
    const auto print = [&](const char* name, double us) {
      std::printf("{\"bench\": \"patch\", \"shape\": \"%s\", \"batch\": %d, \"us\": %.2f, %s}\n",
                  name, kRows, us, facts.c_str());
    };
    const auto no_fetch = [] {};

    print("empty kernel", time([&] { empty_kernel<<<1, 32, 0, stream_.handle()>>>(); }));
    print("fetch, nothing new", time(fetch));
    print("step without fetch", step([] {}, no_fetch));
    print("step, fetch beside it, nothing new", step([] {}, fetch_beside()));
    set_rows_running();
    print("advance alone", time([&] { check(launch_advance(stream_.handle(), advance_)); }));
    print("advance and apply, no records", time(apply));

    send_joins();
    const double renewed = time(renew_all);
    print("fetch, 256 joins", time([&] {
                                renew(false);
                                fetch();
                              }) - renewed);
    print("step with renewal, without fetch", step(renew_all, no_fetch));
    print("step with renewal, fetch of 256 joins beside it", step(renew_all, fetch_beside()));
    const double renewed_fetched = time(renew_fetched);
    print("advance and apply, 256 joins", time([&] {
                                            renew(true);
                                            apply();
                                          }) - renewed_fetched);
  }

 private:
  void renew(bool fetched) {
    renew_kernel<<<1, kRows, 0, stream_.handle()>>>(patch_.queue, fetched);
    check(cudaGetLastError(), "launch");
  }
  double time(const std::function<void()>& submit) {
    return bench::time_graph(stream_, kCalls,
                             [&] {
                               for (int i = 0; i < kCalls; ++i) submit();
                             },
                             {.samples = 41, .warm_ups = 5})
        .median_us;
  }
  std::function<void()> fetch_beside() {
    return [this] {
      check(cudaEventRecord(fork_, stream_.handle()), "cudaEventRecord");
      check(cudaStreamWaitEvent(side_.handle(), fork_, 0), "cudaStreamWaitEvent");
      check(launch_fetch_patches(side_.handle(), patch_));
      check(cudaEventRecord(join_, side_.handle()), "cudaEventRecord");
      beside_ = true;
    };
  }
  // A graph of one step, launched many times in a row.
  double step(const std::function<void()>& before, const std::function<void()>& branch) {
    const auto submit = [&] {
      before();
      beside_ = false;
      branch();
      for (int i = 0; i < kNodes; ++i) {
        layer_kernel<<<132, 256, 0, stream_.handle()>>>(layer_data_.as<float>());
      }
      if (beside_) check(cudaStreamWaitEvent(stream_.handle(), join_, 0), "cudaStreamWaitEvent");
    };
    return bench::time_graph(stream_, 1, submit,
                             {.samples = 21, .min_sample_us = 10000, .warm_ups = 3})
        .median_us;
  }
  // Rows that run with pages enough for all that is timed.
  void set_rows_running() {
    std::vector<Row> rows(kRows);
    for (Row& row : rows) {
      row = {.query_len = 1,
             .context_len = 1,
             .flags = kRowEmit | kRowSelfAdvance,
             .num_pages = limits_.max_pages_per_row};
    }
    check(cudaMemcpy(arena_.input().rows, rows.data(), rows.size() * sizeof(Row),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(launch_build(stream_.handle(), arena_.input(), arena_.arrays()));
    check(stream_.synchronize());
  }
  void send_joins() {
    PatchWriter writer(patch_ring_at(memory_.host_data(), shape_), limits_, shape_);
    const std::vector<int32_t> tokens(kPromptTokens, 7);
    const std::vector<int32_t> pages(16, 3);
    const std::vector<int32_t> blob(kBlobWords, 1);
    for (int32_t r = 0; r < kRows; ++r) {
      check(writer
                .send({.kind = PatchKind::kJoin,
                       .row = r,
                       .fields = {.flags = kRowEmit | kRowSelfAdvance, .final_slot = r + 1},
                       .tokens = tokens,
                       .pages = pages,
                       .blob = blob})
                .status());
    }
    // Steps were counted by the fetches before; the records must be due in the next one.
    auto* records = patch_ring_at(memory_.host_data(), shape_).records;
    for (int32_t i = 0; i < kRows; ++i) records[i].apply_at_step = 2;
  }

  Limits limits_;
  PatchShape shape_;
  StepArena arena_;
  PatchArena patches_;
  MappedMemory memory_;
  Buffer side_words_;
  Buffer layer_data_;
  CudaStream stream_;
  CudaStream side_;
  PatchParams patch_;
  AdvanceParams advance_;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  bool beside_ = false;
};

}  // namespace
}  // namespace headrace::metadata

int main(int argc, char** argv) {
  try {
    headrace::metadata::Bench().run(
        headrace::bench::facts(argc > 1 ? argv[1] : "unknown", "build/cuda/patch_bench COMMIT"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
