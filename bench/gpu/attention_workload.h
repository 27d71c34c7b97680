// SPDX-License-Identifier: Apache-2.0
// What attention_bench attends to: a pool of random pages, and copies of one batch over different
// pages of it, each with its metadata built on the device. Knows nothing of how attention is
// launched or timed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention/cuda/decode_config.h"
#include "bench/gpu/attention_check.cuh"
#include "bench/gpu/attention_options.h"
#include "bench/gpu/bench_support.h"
#include "metadata/arena.h"
#include "metadata/cuda/build_kernel.h"
#include "metadata/index.h"
#include "tensor/buffer.h"

namespace headrace::bench {

// A round of copies reads this much, so that what the L2 cache keeps of a small
// case does not show; but no more than kMaxCopies.
inline constexpr double kRoundBytes = 256e6;
inline constexpr int kMaxCopies = 64;
inline constexpr int64_t kPoolTokens = int64_t{256} * 2048 + 16384;

inline Buffer device_buffer(int64_t bytes) {
  return value_of(Buffer::allocate(Device::kCuda, static_cast<size_t>(bytes)));
}

template <typename T>
void fill(cudaStream_t stream, Buffer& buffer, uint64_t seed) {
  const auto count = static_cast<int64_t>(buffer.size_bytes() / sizeof(T));
  fill_normal<<<1024, 256, 0, stream>>>(buffer.as<T>(), count, seed);
  check(cudaGetLastError(), "launch of fill_normal");
}

// NHD pages of one layer, all filled.
class PagePool {
 public:
  PagePool(cudaStream_t stream, const attention::HeadShape& heads, DType dtype, int32_t page_size) {
    cache_ = {.dtype = dtype,
              .num_pages = static_cast<int32_t>(kPoolTokens / page_size),
              .page_size = page_size};
    cache_.head_stride = heads.head_dim;
    cache_.token_stride = static_cast<int64_t>(heads.num_kv_heads) * heads.head_dim;
    cache_.value_offset = page_size * cache_.token_stride;
    cache_.page_stride = 2 * cache_.value_offset;
    const auto size = static_cast<int64_t>(dtype_size_bytes(dtype));
    buffer_ = device_buffer(cache_.num_pages * cache_.page_stride * size);
    cache_.data = buffer_.data();
    if (dtype == DType::kFP8E4M3) {
      fill<__nv_fp8_e4m3>(stream, buffer_, 1);
      scales_ = device_buffer(2 * sizeof(float));
      const float scales[2] = {0.5f, 2.0f};
      check(cudaMemcpy(scales_.data(), scales, sizeof(scales), cudaMemcpyHostToDevice),
            "cudaMemcpy");
      cache_.key_scale = scales_.as<float>();
      cache_.value_scale = scales_.as<float>() + 1;
    } else {
      fill<__nv_bfloat16>(stream, buffer_, 1);
    }
  }
  const attention::KvCache& cache() const { return cache_; }

 private:
  attention::KvCache cache_;
  Buffer buffer_, scales_;
};

// Sums over a batch.
struct BatchSize {
  int32_t rows = 0;
  int32_t query_tokens = 0;
  int32_t max_query_len = 0;
  int32_t max_seq_len = 0;
  int64_t keys = 0;
  double pairs = 0;  // of a query and a key that it sees
};

inline BatchSize size_of(const Batch& batch) {
  BatchSize size;
  for (const Rows& rows : batch.rows) {
    const double query_len = rows.query_len;
    size.rows += rows.count;
    size.query_tokens += rows.count * rows.query_len;
    size.max_query_len = std::max(size.max_query_len, rows.query_len);
    size.max_seq_len = std::max(size.max_seq_len, rows.seq_len);
    size.keys += static_cast<int64_t>(rows.count) * rows.seq_len;
    size.pairs += rows.count * query_len * (rows.seq_len - 0.5 * (query_len - 1));
  }
  return size;
}

inline double kv_bytes(const attention::HeadShape& heads, DType dtype, const BatchSize& size) {
  return 2.0 * static_cast<double>(size.keys) * heads.num_kv_heads * heads.head_dim *
         static_cast<double>(dtype_size_bytes(dtype));
}

// Copies of a batch, each with pages, metadata and outputs of its own; the queries are shared.
class Workload {
 public:
  Workload(CudaStream& stream, const attention::HeadShape& heads, const PagePool& pool,
           const Batch& batch, bool prefill)
      : size_(size_of(batch)) {
    const attention::KvCache& cache = pool.cache();
    if (size_.keys > kPoolTokens - size_.rows * cache.page_size) {
      throw std::runtime_error(
          batch.name + " has more keys than the pool of pages: " + std::to_string(kPoolTokens));
    }
    const double bytes = kv_bytes(heads, cache.dtype, size_);
    const int copies = std::clamp(static_cast<int>(std::ceil(kRoundBytes / bytes)), 1, kMaxCopies);
    int device = 0;
    int multiprocessors = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
    limits_ = {.max_rows = size_.rows,
               .max_tokens = size_.query_tokens,
               .max_pages_per_row = metadata::ceil_div(size_.max_seq_len, cache.page_size),
               .page_size = cache.page_size,
               .num_workers = attention::decode_workers(multiprocessors, heads.num_kv_heads)};
    const int64_t width = static_cast<int64_t>(heads.num_q_heads) * heads.head_dim;
    q_ = device_buffer(size_.query_tokens * width * 2);
    fill<__nv_bfloat16>(stream.handle(), q_, 2);

    std::vector<int32_t> pages(static_cast<size_t>(cache.num_pages) - 1);
    std::iota(pages.begin(), pages.end(), 1);
    std::shuffle(pages.begin(), pages.end(), std::mt19937_64(3));
    size_t next = 0;
    metadata::StepArena host = value_of(metadata::StepArena::create(Device::kCpu, limits_));
    for (int copy = 0; copy < copies; ++copy) {
      write_rows(host.input(), batch, prefill, pages, next);
      check(metadata::check_rows(host));
      arenas_.push_back(value_of(metadata::StepArena::create(Device::kCuda, limits_)));
      const metadata::StepArena& arena = arenas_.back();
      const auto* from = reinterpret_cast<const char*>(host.input().num_rows);
      const auto* to = reinterpret_cast<const char*>(host.arrays().counts);
      check(cudaMemcpy(arena.input().num_rows, from, static_cast<size_t>(to - from),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
      check(metadata::launch_build(stream.handle(), arena.input(), arena.arrays()));
      outputs_.push_back(device_buffer(size_.query_tokens * width * 2));
      check(cudaMemsetAsync(outputs_.back().data(), 0xff, outputs_.back().size_bytes(),
                            stream.handle()),
            "cudaMemsetAsync");
      copies_.push_back({.heads = heads,
                         .io_dtype = DType::kBF16,
                         .q = q_.data(),
                         .q_stride = width,
                         .out = outputs_.back().data(),
                         .out_stride = width,
                         .cache = cache,
                         .scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim)),
                         .step = arena.view()});
    }
    check(stream.synchronize());
  }

  const std::vector<attention::AttentionParams>& copies() const { return copies_; }
  const metadata::Limits& limits() const { return limits_; }
  const BatchSize& size() const { return size_; }

  // Largest relative error of a head of the first copy's output, of up to 64 tokens spread over
  // the batch. NaN counts as 1.
  double error(CudaStream& stream) const {
    const attention::AttentionParams& params = copies_[0];
    const int32_t count = std::min(size_.query_tokens, 64);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(
          static_cast<int32_t>(count == 1 ? 0 : i * (size_.query_tokens - 1) / (count - 1)));
    }
    const auto head_dim = static_cast<size_t>(params.heads.head_dim);
    const auto width = static_cast<size_t>(params.out_stride);
    Buffer chosen = device_buffer(count * static_cast<int64_t>(sizeof(int32_t)));
    Buffer exact = device_buffer(count * params.out_stride * static_cast<int64_t>(sizeof(double)));
    check(cudaMemcpy(chosen.data(), tokens.data(), chosen.size_bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    const dim3 grid(static_cast<uint32_t>(count), static_cast<uint32_t>(params.heads.num_q_heads));
    exact_attention<<<grid, kExactThreads, 0, stream.handle()>>>(params, chosen.as<int32_t>(),
                                                                 exact.as<double>());
    check(cudaGetLastError(), "launch of exact_attention");
    check(stream.synchronize());
    std::vector<double> want(exact.size_bytes() / sizeof(double));
    std::vector<__nv_bfloat16> got(width);
    check(cudaMemcpy(want.data(), exact.data(), exact.size_bytes(), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    double worst = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto* out = static_cast<const __nv_bfloat16*>(params.out) +
                        static_cast<int64_t>(tokens[i]) * params.out_stride;
      check(cudaMemcpy(got.data(), out, width * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
      for (size_t begin = 0; begin < width; begin += head_dim) {
        double difference = 0;
        double norm = 0;
        for (size_t j = begin; j < begin + head_dim; ++j) {
          const double exactly = want[i * width + j];
          const double delta = static_cast<double>(__bfloat162float(got[j])) - exactly;
          difference += delta * delta;
          norm += exactly * exactly;
        }
        const double relative = std::sqrt(difference / norm);
        worst = std::max(worst, std::isfinite(relative) ? relative : 1.0);
      }
    }
    return worst;
  }

 private:
  // `next`: the first page of the shuffled pool that no copy has taken; wraps around.
  void write_rows(const metadata::StepInput& input, const Batch& batch, bool prefill,
                  const std::vector<int32_t>& pages, size_t& next) const {
    *input.num_rows = size_.rows;
    *input.padded_rows = size_.rows;
    int32_t r = 0;
    for (const Rows& rows : batch.rows) {
      for (int32_t i = 0; i < rows.count; ++i, ++r) {
        const int32_t num_pages = metadata::ceil_div(rows.seq_len, limits_.page_size);
        input.rows[r] = {.query_len = rows.query_len,
                         .context_len = rows.seq_len - rows.query_len,
                         .num_drafts = prefill ? 0 : rows.query_len - 1,
                         .flags = metadata::kRowEmit,
                         .num_pages = num_pages};
        int32_t* table = input.page_table + static_cast<int64_t>(r) * limits_.max_pages_per_row;
        for (int32_t page = 0; page < num_pages; ++page) table[page] = pages[next++ % pages.size()];
      }
    }
  }

  BatchSize size_;
  metadata::Limits limits_;
  Buffer q_;
  std::vector<Buffer> outputs_;
  std::vector<metadata::StepArena> arenas_;
  std::vector<attention::AttentionParams> copies_;
};

}  // namespace headrace::bench
