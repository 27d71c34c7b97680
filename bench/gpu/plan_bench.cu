// SPDX-License-Identifier: Apache-2.0
// Device time of metadata::build: one JSON line a shape. A graph of many builds in a row is
// replayed, so the figure is what a build adds to a step, the gap between two kernels included.
// The line "empty kernel" is the same graph of kernels that do nothing.
//
//   plan_bench [COMMIT]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "metadata/arena.h"
#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/cuda_stream.h"

namespace headrace::metadata {
namespace {

constexpr int kBuildsPerGraph = 100;
constexpr int kWarmUps = 10;
constexpr int kReplays = 101;
// max_rows, max_tokens, pages for 131072 tokens a row.
constexpr Limits kLimits{256, 512, 8192, 16, 0, 132, 64};
constexpr int32_t kLongTokens = 131072;

void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}
void check(cudaError_t error, const char* call) { check(cuda_status(error, call)); }
template <typename T>
T value_of(Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

__global__ void empty_kernel() {}

// Decode rows of 1…max_len tokens; the first has first_len tokens, if that is not 0.
void write_rows(const StepArena& host, int32_t batch, int32_t max_len, int32_t first_len) {
  const StepInput& input = host.input();
  std::mt19937_64 random(1);
  *input.num_rows = batch;
  *input.padded_rows = batch;
  int32_t next_page = 1;
  for (int32_t r = 0; r < batch; ++r) {
    const int32_t drawn = 2 + static_cast<int32_t>(random() % static_cast<uint64_t>(max_len - 1));
    const int32_t len = r == 0 && first_len > 0 ? first_len : drawn;
    const int32_t pages = (len + kLimits.page_size - 1) / kLimits.page_size;
    input.rows[r] = Row{1, len - 1, 0, kRowEmit | kRowSelfAdvance, r + 1, r + 1, 0, pages};
    int32_t* table = input.page_table + static_cast<int64_t>(r) * kLimits.max_pages_per_row;
    for (int32_t i = 0; i < pages; ++i) table[i] = next_page++;
  }
}

double median_us(CudaStream& stream, const std::function<void()>& submit) {
  check(stream.begin_capture());
  for (int i = 0; i < kBuildsPerGraph; ++i) submit();
  const CudaGraph graph = value_of(stream.end_capture());
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times_us;
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    check(cudaEventRecord(begin, stream.handle()), "cudaEventRecord");
    check(stream.launch(graph));
    check(cudaEventRecord(end, stream.handle()), "cudaEventRecord");
    check(stream.synchronize());
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, begin, end), "cudaEventElapsedTime");
    if (i >= kWarmUps) times_us.push_back(1e3 * elapsed_ms / kBuildsPerGraph);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times_us.begin(), times_us.end());
  return times_us[times_us.size() / 2];
}

// The first word of the driver's version file that is a version.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

// What all lines share, from "device" on.
std::string facts(const std::string& commit) {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int cuda = 0;
  check(cudaRuntimeGetVersion(&cuda), "cudaRuntimeGetVersion");
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  return R"("device": ")" + std::string(device.name) + R"(", "driver": ")" + driver_version() +
         R"(", "cuda": ")" + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) +
         R"(", "commit": ")" + commit + R"(", "date": ")" + date +
         R"(", "command": "build/cuda/plan_bench COMMIT")";
}

void print(const char* shape, int32_t batch, double us, const std::string& facts) {
  std::printf(R"({"bench": "plan", "shape": "%s", "batch": %d, "dtype": "int32", "us": %.2f, )"
              R"("floor_us": null, "peers": {}, %s})"
              "\n",
              shape, batch, us, facts.c_str());
}

void run(const std::string& commit) {
  CudaStream stream = value_of(CudaStream::create());
  const std::string shared = facts(commit);
  print("empty kernel", 0,
        median_us(stream, [&] { empty_kernel<<<1, 32, 0, stream.handle()>>>(); }), shared);

  struct Shape {
    const char* name;
    int32_t batch;
    int32_t max_len;
    int32_t first_len;
  };
  for (const Shape& shape : {Shape{"decode, 2 to 8192 tokens", 1, 8192, 0},
                             {"decode, 2 to 8192 tokens", 64, 8192, 0},
                             {"decode, 2 to 8192 tokens", 256, 8192, 0},
                             {"the same, one row of 131072", 256, 8192, kLongTokens}}) {
    StepArena host = value_of(StepArena::create(Device::kCpu, kLimits));
    const StepArena arena = value_of(StepArena::create(Device::kCuda, kLimits));
    write_rows(host, shape.batch, shape.max_len, shape.first_len);
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
