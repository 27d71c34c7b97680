// SPDX-License-Identifier: Apache-2.0
// The command line of attention_bench: which shapes and batches, how they are timed and printed.
// Knows no CUDA.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention/attention_params.h"

namespace headrace::bench {

inline constexpr const char* kAttentionHelp =
    R"(Usage: attention_bench [options]

Times paged attention on the GPU: a graph of calls over different pages (at least 256 MB a round where
64 copies are enough, so that the L2 cache is cold) is replayed; the figure is the median of samples.

  --shapes LIST     Hq x Hkv x D (default 32x8x128,16x2x256,24x4x256,64x8x128)
  --cases LIST      rows x keys, or skew = one row of 131072 and 127 of 512
                    (default 1x32768,8x8192,64x4096,128x640,256x2048,skew,1x1024,8x1024)
  --prefill         prefill attention instead of decode; cases are rows x new tokens [+ context]
                    (default 1x8192,4x2048+8192; shapes 32x8x128,16x2x256)
  --pages LIST      tokens a page (default 16)
  --kv LIST         bf16, fp8 (default bf16)
  --verify N        new tokens of each row, 1 to 16 (default 1: plain decode)
  --launch HOW      early, programmatic or plain (default early: programmatic dependent launch, and
                    pages of past tokens are fetched before the kernel's dependencies are met)
  --samples N       of at least 2 ms each (default 15)
  --check           compare each result with fp64 first (at most 64 tokens of it), stop if it is wrong
  --json            one JSON line a row (docs/benchmarks) instead of a table
  --commit TEXT     what the JSON lines say was measured
  --help
)";

// Rows that are alike; a batch is a list of these.
struct Rows {
  int32_t count = 0;
  int32_t query_len = 1;
  int32_t seq_len = 0;
};

struct Batch {
  std::string name;
  std::vector<Rows> rows;
};

enum class LaunchMode { kPlain, kProgrammatic, kEarly };

struct AttentionOptions {
  std::vector<attention::HeadShape> shapes;
  std::vector<Batch> batches;
  std::vector<int32_t> page_sizes;
  std::vector<DType> kv_dtypes;
  int32_t query_len = 1;
  bool prefill = false;
  LaunchMode launch = LaunchMode::kEarly;
  int samples = 15;
  bool check = false;
  bool json = false;
  std::string commit = "unknown";
};

inline std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

inline int32_t positive(const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1 || value > INT32_MAX) {
    throw std::runtime_error("'" + text + "' is not a positive number");
  }
  return static_cast<int32_t>(value);
}

inline attention::HeadShape parse_shape(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, 'x');
  if (parts.size() != 3) throw std::runtime_error("'" + text + "' is not like 32x8x128");
  return {.num_q_heads = positive(parts[0]),
          .num_kv_heads = positive(parts[1]),
          .head_dim = positive(parts[2])};
}

inline Batch parse_batch(const std::string& text, int32_t query_len) {
  if (text == "skew") return {text, {{1, query_len, 131072}, {127, query_len, 512}}};
  const std::vector<std::string> parts = split_text(text, 'x');
  if (parts.size() != 2) throw std::runtime_error("'" + text + "' is not like 128x640");
  return {text, {{positive(parts[0]), query_len, positive(parts[1])}}};
}

// "4x2048+8192": 4 rows of 2048 new tokens over 8192 cached ones.
inline Batch parse_prefill_batch(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, 'x');
  const std::vector<std::string> tokens =
      parts.size() == 2 ? split_text(parts[1], '+') : std::vector<std::string>();
  if (tokens.empty() || tokens.size() > 2) {
    throw std::runtime_error("'" + text + "' is not like 1x8192 or 4x2048+8192");
  }
  const int32_t new_tokens = positive(tokens[0]);
  const int32_t context = tokens.size() == 2 ? positive(tokens[1]) : 0;
  return {text, {{positive(parts[0]), new_tokens, new_tokens + context}}};
}

inline DType parse_kv(const std::string& text) {
  if (text == "bf16") return DType::kBF16;
  if (text == "fp8") return DType::kFP8E4M3;
  throw std::runtime_error("--kv is bf16 or fp8, not '" + text + "'");
}

inline LaunchMode parse_launch(const std::string& text) {
  if (text == "plain") return LaunchMode::kPlain;
  if (text == "programmatic") return LaunchMode::kProgrammatic;
  if (text == "early") return LaunchMode::kEarly;
  throw std::runtime_error("--launch is early, programmatic or plain, not '" + text + "'");
}

// Throws std::runtime_error for what it does not understand. --help ends the program.
inline AttentionOptions parse_attention_options(int argc, char** argv) {
  AttentionOptions options;
  std::string shapes;
  std::string cases;
  std::string pages = "16";
  std::string kv = "bf16";
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::runtime_error(name + " wants a value");
      return std::string(argv[i]);
    };
    if (name == "--help") {
      std::fputs(kAttentionHelp, stdout);
      std::exit(0);
    }
    if (name == "--shapes") {
      shapes = value();
    } else if (name == "--cases") {
      cases = value();
    } else if (name == "--pages") {
      pages = value();
    } else if (name == "--kv") {
      kv = value();
    } else if (name == "--verify") {
      options.query_len = positive(value());
    } else if (name == "--launch") {
      options.launch = parse_launch(value());
    } else if (name == "--samples") {
      options.samples = positive(value());
    } else if (name == "--commit") {
      options.commit = value();
    } else if (name == "--prefill") {
      options.prefill = true;
    } else if (name == "--check") {
      options.check = true;
    } else if (name == "--json") {
      options.json = true;
    } else {
      throw std::runtime_error("unknown option " + name + " (--help lists them)");
    }
  }
  if (shapes.empty()) {
    shapes = options.prefill ? "32x8x128,16x2x256" : "32x8x128,16x2x256,24x4x256,64x8x128";
  }
  if (cases.empty()) {
    cases = options.prefill ? "1x8192,4x2048+8192"
                            : "1x32768,8x8192,64x4096,128x640,256x2048,skew,1x1024,8x1024";
  }
  for (const std::string& text : split_text(shapes, ',')) {
    options.shapes.push_back(parse_shape(text));
  }
  for (const std::string& text : split_text(cases, ',')) {
    options.batches.push_back(options.prefill ? parse_prefill_batch(text)
                                              : parse_batch(text, options.query_len));
  }
  for (const std::string& text : split_text(pages, ',')) {
    options.page_sizes.push_back(positive(text));
  }
  for (const std::string& text : split_text(kv, ',')) options.kv_dtypes.push_back(parse_kv(text));
  return options;
}

}  // namespace headrace::bench
