// SPDX-License-Identifier: Apache-2.0
// Whole-model speed of the CPU backend through the public API, in tokens per second of CPU time
// (user + system of this process), so that a busy machine does not falsify it. Prints one JSON line
// a measurement: prompt of 512 tokens, and generation at batch 1 and 8 as the difference of two run
// lengths.
//
//   cpu_model_bench MODEL_FOLDER [THREADS]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "headrace/engine.h"

namespace {

using headrace::Engine;
using headrace::Request;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Ids from a fixed linear congruence: no special tokens, the same for every engine compared.
std::vector<int32_t> prompt_ids(int32_t length, int32_t vocab, uint32_t seed) {
  std::vector<int32_t> ids;
  uint32_t state = seed;
  for (int32_t i = 0; i < length; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(300 + static_cast<int32_t>(state % static_cast<uint32_t>(vocab - 300)));
  }
  return ids;
}

// CPU seconds of `batch` requests at once; exits on an error, since a wrong figure is worse.
double run(Engine& engine, int batch, int32_t prompt_tokens, int32_t max_tokens) {
  const int32_t vocab = engine.model_info().vocab_size;
  const double start = cpu_seconds();
  for (int i = 0; i < batch; ++i) {
    Request request;
    request.prompt_token_ids = prompt_ids(prompt_tokens, vocab, static_cast<uint32_t>(i) + 1);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    const auto id = engine.submit(std::move(request), [](const headrace::RequestUpdate& update) {
      if (!update.status.ok()) {
        fmt::print(stderr, "{}\n", update.status.message());
        std::exit(1);
      }
    });
    if (!id.ok()) {
      fmt::print(stderr, "{}\n", id.status().message());
      std::exit(1);
    }
  }
  engine.wait_idle();
  return cpu_seconds() - start;
}

double median_of_5(Engine& engine, int batch, int32_t prompt_tokens, int32_t max_tokens) {
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(run(engine, batch, prompt_tokens, max_tokens));
  std::sort(seconds.begin(), seconds.end());
  return seconds[2];
}

void print(const char* shape, int batch, double tokens, double seconds) {
  fmt::print(R"({{"bench": "cpu", "shape": "{}", "batch": {}, "dtype": "fp32", )"
             R"("us": {:.1f}, "tokens_per_cpu_s": {:.1f}}})"
             "\n",
             shape, batch, 1e6 * seconds / tokens, tokens / seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: cpu_model_bench MODEL_FOLDER [THREADS]\n");
    return 2;
  }
  headrace::EngineOptions options;
  options.model = argv[1];
  options.num_threads = argc == 3 ? std::atoi(argv[2]) : 1;
  options.max_model_len = 1024;
  options.dtype = headrace::DType::kF32;
  auto engine = Engine::load(options);
  if (!engine.ok()) {
    fmt::print(stderr, "{}\n", engine.status().message());
    return 1;
  }
  run(**engine, 8, 64, 4);  // warm-up
  print("prompt512", 1, 512, median_of_5(**engine, 1, 512, 1));
  constexpr int32_t kShort = 1;
  constexpr int32_t kLong = 129;
  for (int batch : {1, 8}) {
    const double seconds =
        median_of_5(**engine, batch, 16, kLong) - median_of_5(**engine, batch, 16, kShort);
    print("decode", batch, static_cast<double>(batch) * (kLong - kShort), seconds);
  }
  return 0;
}
