// SPDX-License-Identifier: Apache-2.0
// Device time of metadata::build: one JSON line a shape. A graph of many builds in a row is
// replayed, so the figure is what a build adds to a step, the gap between two kernels included.
// The line "empty kernel" is the same graph of kernels that do nothing; "PagedAttention::plan" is
// the public call, with page lists of the same lengths.
//
//   plan_bench [COMMIT]
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/bench_support.h"
#include "headrace/paged_attention.h"
#include "metadata/arena.h"
#include "metadata/cuda/build_kernel.h"

namespace headrace::metadata {
namespace {

using bench::check;
using bench::value_of;

constexpr int kBuildsPerGraph = 100;
// max_rows, max_tokens, pages for 131072 tokens a row.
constexpr Limits kLimits{256, 512, 8192, 16, 0, 132, 64};
constexpr int32_t kLongTokens = 131072;

__global__ void empty_kernel() {}

struct Shape {
  const char* name;
  int32_t batch;    // decode rows
  int32_t min_len;  // tokens of a row
  int32_t max_len;
  int32_t first_len;  // tokens of the first row; 0: as the others
};

void write_rows(const StepArena& host, const Shape& shape) {
  const StepInput& input = host.input();
  std::mt19937_64 random(1);
  *input.num_rows = shape.batch;
  *input.padded_rows = shape.batch;
  int32_t next_page = 1;
  const auto num_lengths = static_cast<uint64_t>(shape.max_len - shape.min_len + 1);
  for (int32_t r = 0; r < shape.batch; ++r) {
    const int32_t drawn = shape.min_len + static_cast<int32_t>(random() % num_lengths);
    const int32_t len = r == 0 && shape.first_len > 0 ? shape.first_len : drawn;
    const int32_t pages = (len + kLimits.page_size - 1) / kLimits.page_size;
    input.rows[r] = Row{1, len - 1, 0, kRowEmit | kRowSelfAdvance, r + 1, r + 1, 0, pages};
    int32_t* table = input.page_table + static_cast<int64_t>(r) * kLimits.max_pages_per_row;
    for (int32_t i = 0; i < pages; ++i) table[i] = next_page++;
  }
}

double median_us(CudaStream& stream, const std::function<void()>& submit) {
  const auto submit_all = [&] {
    for (int i = 0; i < kBuildsPerGraph; ++i) submit();
  };
  return bench::time_graph(stream, kBuildsPerGraph, submit_all, {.samples = 101, .warm_ups = 10})
      .median_us;
}

void print(const char* shape, int32_t batch, double us, const std::string& facts) {
  std::printf(R"({"bench": "plan", "shape": "%s", "batch": %d, "dtype": "int32", "us": %.2f, )"
              R"("floor_us": null, "peers": {}, %s})"
              "\n",
              shape, batch, us, facts.c_str());
}

// Page lists of such rows, on the device.
struct PageLists {
  explicit PageLists(const Shape& shape) {
    std::mt19937_64 random(1);
    std::vector<int32_t> indptr{0};
    std::vector<int32_t> last_page_len;
    const auto num_lengths = static_cast<uint64_t>(shape.max_len - shape.min_len + 1);
    for (int32_t r = 0; r < shape.batch; ++r) {
      const int32_t drawn = shape.min_len + static_cast<int32_t>(random() % num_lengths);
      const int32_t len = r == 0 && shape.first_len > 0 ? shape.first_len : drawn;
      indptr.push_back(indptr.back() + (len + kLimits.page_size - 1) / kLimits.page_size);
      last_page_len.push_back((len - 1) % kLimits.page_size + 1);
    }
    num_pages = indptr.back();
    std::vector<int32_t> indices(static_cast<size_t>(num_pages));
    for (int32_t i = 0; i < num_pages; ++i) indices[static_cast<size_t>(i)] = num_pages - 1 - i;
    batch.page_indptr = upload(0, indptr);
    batch.page_indices = upload(1, indices);
    batch.last_page_len = upload(2, last_page_len);
    batch.num_page_indices = num_pages;
    batch.num_rows = batch.num_tokens = shape.batch;
  }
  PagedBatch batch;
  int32_t num_pages = 0;

 private:
  const int32_t* upload(int i, const std::vector<int32_t>& values) {
    const size_t bytes = values.size() * sizeof(int32_t);
    memory_[i] = value_of(Buffer::allocate(Device::kCuda, bytes));
    check(cudaMemcpy(memory_[i].data(), values.data(), bytes, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    return memory_[i].as<int32_t>();
  }
  Buffer memory_[3];
};

void run_public_plan(CudaStream& stream, const std::string& facts) {
  for (const Shape& shape :
       {Shape{"PagedAttention::plan, 2 to 8192 tokens", 1, 2, 8192, 0},
        Shape{"PagedAttention::plan, 2 to 8192 tokens", 64, 2, 8192, 0},
        Shape{"PagedAttention::plan, 2 to 8192 tokens", 256, 2, 8192, 0},
        Shape{"PagedAttention::plan, one row of 131072", 256, 2, 8192, kLongTokens}}) {
    const PageLists lists(shape);
    PagedAttentionOptions options;
    options.num_q_heads = 32;
    options.num_kv_heads = 8;
    options.head_dim = 128;
    options.page_size = kLimits.page_size;
    options.num_pages = lists.num_pages;
    options.max_rows = kLimits.max_rows;
    options.max_tokens = kLimits.max_tokens;
    options.max_pages_per_row = kLimits.max_pages_per_row;
    PagedAttention attention = value_of(PagedAttention::create(options));
    const double us =
        median_us(stream, [&] { check(attention.plan(lists.batch, stream.handle())); });
    print(shape.name, shape.batch, us, facts);
  }
}

void run(const std::string& commit) {
  CudaStream stream = value_of(CudaStream::create());
  const std::string shared = bench::facts(commit, "build/cuda/plan_bench COMMIT");
  print("empty kernel", 0,
        median_us(stream, [&] { empty_kernel<<<1, 32, 0, stream.handle()>>>(); }), shared);

  for (const Shape& shape : {Shape{"decode, 640 tokens", 1, 640, 640, 0},
                             {"decode, 640 tokens", 8, 640, 640, 0},
                             {"decode, 640 tokens", 64, 640, 640, 0},
                             {"decode, 640 tokens", 128, 640, 640, 0},
                             {"decode, 640 tokens", 256, 640, 640, 0},
                             {"decode, 2 to 8192 tokens", 1, 2, 8192, 0},
                             {"decode, 2 to 8192 tokens", 64, 2, 8192, 0},
                             {"decode, 2 to 8192 tokens", 256, 2, 8192, 0},
                             {"the same, one row of 131072", 256, 2, 8192, kLongTokens}}) {
    StepArena host = value_of(StepArena::create(Device::kCpu, kLimits));
    const StepArena arena = value_of(StepArena::create(Device::kCuda, kLimits));
    write_rows(host, shape);
    check(check_rows(host));
    const auto* from = reinterpret_cast<const char*>(host.input().num_rows);
    const auto* to = reinterpret_cast<const char*>(host.arrays().counts);
    check(cudaMemcpy(arena.input().num_rows, from, static_cast<size_t>(to - from),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    const double us = median_us(
        stream, [&] { check(launch_build(stream.handle(), arena.input(), arena.arrays())); });
    print(shape.name, shape.batch, us, shared);
  }
  run_public_plan(stream, shared);
}

}  // namespace
}  // namespace headrace::metadata

int main(int argc, char** argv) {
  try {
    headrace::metadata::run(argc > 1 ? argv[1] : "unknown");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
