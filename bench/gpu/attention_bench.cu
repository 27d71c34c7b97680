// SPDX-License-Identifier: Apache-2.0
// Times decode, verify and prefill attention over paged caches (--help says how and what of). The
// metadata is built on the device before; its time is plan_bench's business.
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "attention/cuda/decode.h"
#include "attention/cuda/prefill.h"
#include "bench/gpu/attention_options.h"
#include "bench/gpu/attention_workload.h"
#include "bench/gpu/bench_support.h"

namespace headrace::bench {
namespace {

using attention::AttentionParams;
using attention::DecodeLaunch;
using attention::HeadShape;

// What docs/benchmarks call the floor: reading K and V once at the bandwidth that a device copy
// reaches on an H200, and for prefill the products at the rate of a large bf16 matrix product.
constexpr double kFloorBytesPerUs = 4.2e6;
constexpr double kFloorFlopPerUs = 750e6;
constexpr double kTolerance = 1e-2;

struct Row {
  HeadShape heads;
  DType kv_dtype = DType::kBF16;
  int32_t page_size = 0;
  std::string batch;
  int32_t query_len = 1;
  double bytes = 0;
  double flop = 0;
  Timing timing;
  double error = -1;  // < 0: not checked
};

std::string shape_name(const HeadShape& heads) {
  return std::to_string(heads.num_q_heads) + "x" + std::to_string(heads.num_kv_heads) + "x" +
         std::to_string(heads.head_dim);
}
const char* launch_name(LaunchMode launch) {
  return launch == LaunchMode::kEarly          ? "early"
         : launch == LaunchMode::kProgrammatic ? "programmatic"
                                               : "plain";
}

void print_json(const AttentionOptions& options, const Row& row, const std::string& shared) {
  const double us = row.timing.median_us;
  std::printf(R"({"bench": "%s", "shape": "%s", "batch": "%s", "dtype": "%s", "page_size": %d, )",
              options.prefill ? "attention_prefill" : "attention_decode",
              shape_name(row.heads).c_str(), row.batch.c_str(),
              row.kv_dtype == DType::kFP8E4M3 ? "bf16, KV fp8" : "bf16", row.page_size);
  if (options.prefill) {
    std::printf(R"("us": %.2f, "min_us": %.2f, "floor_us": %.2f, "tflop_per_s": %.1f, )", us,
                row.timing.min_us, row.flop / kFloorFlopPerUs, row.flop / us / 1e6);
  } else {
    std::printf(R"("query_len": %d, "launch": "%s", "us": %.2f, "min_us": %.2f, "floor_us": %.2f, )"
                R"("tb_per_s": %.3f, )",
                row.query_len, launch_name(options.launch), us, row.timing.min_us,
                row.bytes / kFloorBytesPerUs, row.bytes / us / 1e6);
  }
  if (row.error >= 0) std::printf(R"("max_rel_error": %.5f, )", row.error);
  std::printf("\"peers\": {}, %s}\n", shared.c_str());
}

void print_head(const AttentionOptions& options) {
  std::printf("%-12s %-12s %5s %-5s %10s %10s  %s  of floor%s\n", "shape", "batch", "page", "KV",
              "us", "min us", options.prefill ? "TFLOP/s" : "   TB/s",
              options.check ? "  rel. error" : "");
}

void print_row(const AttentionOptions& options, const Row& row) {
  const double us = row.timing.median_us;
  const double floor_us =
      options.prefill ? row.flop / kFloorFlopPerUs : row.bytes / kFloorBytesPerUs;
  std::printf("%-12s %-12s %5d %-5s %10.2f %10.2f  %7.*f  %6.1f %%", shape_name(row.heads).c_str(),
              row.batch.c_str(), row.page_size, row.kv_dtype == DType::kFP8E4M3 ? "fp8" : "bf16",
              us, row.timing.min_us, options.prefill ? 1 : 3,
              (options.prefill ? row.flop : row.bytes) / us / 1e6, 100 * floor_us / us);
  if (row.error >= 0) std::printf("     %.5f", row.error);
  std::printf("\n");
}

// Runs the calls once and compares, if asked to; then times them.
void measure(const AttentionOptions& options, CudaStream& stream, const Workload& work,
             const std::vector<std::function<void()>>& calls, Row* row) {
  if (options.check) {
    calls[0]();
    check(stream.synchronize());
    row->error = work.error(stream);
    if (!(row->error <= kTolerance)) {
      throw std::runtime_error(shape_name(row->heads) + " " + row->batch +
                               ": the result is wrong, relative error " +
                               std::to_string(row->error));
    }
  }
  // A graph of one call would hide the gap between two.
  const size_t rounds = calls.size() == 1 ? 2 : 1;
  row->timing = time_graph(stream, static_cast<int>(rounds * calls.size()),
                           [&] {
                             for (size_t i = 0; i < rounds; ++i) {
                               for (const auto& call : calls) call();
                             }
                           },
                           {.samples = options.samples, .min_sample_us = 2000});
}

void measure_decode(const AttentionOptions& options, CudaStream& stream, const Workload& work,
                    Row* row) {
  std::vector<DecodeLaunch> launches;
  std::vector<Buffer> workspaces;
  std::vector<std::function<void()>> calls;
  launches.reserve(work.copies().size());
  for (const AttentionParams& params : work.copies()) {
    const metadata::SplitView split = metadata::split_view(params.step);
    workspaces.push_back(device_buffer(attention::decode_workspace_bytes(
        params.heads, work.limits(), split.shape, work.size().max_query_len)));
    launches.push_back(value_of(
        attention::prepare_decode(params, {.split = split,
                                           .max_query_len = work.size().max_query_len,
                                           .workspace = workspaces.back().data(),
                                           .programmatic = options.launch != LaunchMode::kPlain,
                                           .early_pages = options.launch == LaunchMode::kEarly})));
    calls.emplace_back([&stream, launch = &launches.back()] {
      check(attention::launch_decode(stream.handle(), *launch));
    });
  }
  measure(options, stream, work, calls, row);
}

void measure_prefill(const AttentionOptions& options, CudaStream& stream, const Workload& work,
                     Row* row) {
  Buffer queue = value_of(Buffer::allocate_zeroed(Device::kCuda, sizeof(attention::WorkQueue)));
  std::vector<std::function<void()>> calls;
  for (const AttentionParams& params : work.copies()) {
    calls.emplace_back([&stream, launch = value_of(attention::prepare_prefill(
                                     params, queue.as<attention::WorkQueue>()))] {
      check(attention::launch_prefill(stream.handle(), launch));
    });
  }
  measure(options, stream, work, calls, row);
}

// An idle GPU clocks down: some work before the first sample.
void warm_clocks(CudaStream& stream) {
  using Clock = std::chrono::steady_clock;
  Buffer buffer = device_buffer(int64_t{64} << 20);
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(300);
  while (Clock::now() < end) {
    for (int i = 0; i < 50; ++i) fill<__nv_bfloat16>(stream.handle(), buffer, 1);
    check(stream.synchronize());
  }
}

void run(const AttentionOptions& options, const std::string& command) {
  CudaStream stream = value_of(CudaStream::create());
  warm_clocks(stream);
  const std::string shared = facts(options.commit, command);
  if (!options.json) print_head(options);
  for (const DType kv_dtype : options.kv_dtypes) {
    for (const HeadShape& heads : options.shapes) {
      for (const int32_t page_size : options.page_sizes) {
        const PagePool pool(stream.handle(), heads, kv_dtype, page_size);
        for (const Batch& batch : options.batches) {
          const Workload work(stream, heads, pool, batch, options.prefill);
          Row row{.heads = heads,
                  .kv_dtype = kv_dtype,
                  .page_size = page_size,
                  .batch = batch.name,
                  .query_len = work.size().max_query_len,
                  .bytes = kv_bytes(heads, kv_dtype, work.size()),
                  .flop = 4.0 * heads.num_q_heads * heads.head_dim * work.size().pairs};
          (options.prefill ? measure_prefill : measure_decode)(options, stream, work, &row);
          if (options.json) {
            print_json(options, row, shared);
          } else {
            print_row(options, row);
          }
          std::fflush(stdout);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  try {
    const auto options = headrace::bench::parse_attention_options(argc, argv);
    std::string command = "build/cuda/attention_bench";
    for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
    headrace::bench::run(options, command);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
