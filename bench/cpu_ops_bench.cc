// SPDX-License-Identifier: Apache-2.0
// Speed of the CPU kernels on one thread, in CPU time: matrix products as a share of the
// processor's AVX2 peak (measured here too), attention, and the products of whole small models a
// token.
//   cpu_ops_bench [seconds per measurement]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "attention/cpu/attention_tiled.h"
#include "attention/reference.h"
#include "base/cpu_features.h"
#include "metadata/arena.h"
#include "ops/cpu/matmul.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of one call: the best of five rounds of at least `seconds` / 5 each.
double seconds_per_call(double seconds, const std::function<void()>& call) {
  call();
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const double begin = cpu_seconds();
    double elapsed = 0.0;
    int calls = 0;
    do {
      call();
      ++calls;
      elapsed = cpu_seconds() - begin;
    } while (elapsed < seconds / 5);
    best = std::min(best, elapsed / calls);
  }
  return best;
}

std::vector<float> normals(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

#if defined(__x86_64__)
// Twelve independent chains of fused multiply-adds, and nothing else: the most that AVX2 can do.
__attribute__((target("avx2,fma"))) float fma_chains(int64_t steps) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f);
  const __m256 b = _mm256_set1_ps(1e-3f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < 12; ++c) sums[c] = _mm256_fmadd_ps(sums[c], a, b);
  }
  __m256 total = sums[0];
  for (int c = 1; c < 12; ++c) total = _mm256_add_ps(total, sums[c]);
  return _mm256_cvtss_f32(total);
}

double peak_gflops(double seconds) {
  constexpr int64_t kSteps = 100'000;
  volatile float sink = 0.0f;
  const double time = seconds_per_call(seconds, [&] { sink = sink + fma_chains(kSteps); });
  return 2.0 * 8 * 12 * static_cast<double>(kSteps) / time * 1e-9;
}
#endif

struct Product {
  int64_t rows;
  int64_t cols;
  int count;  // a token
  bool logits = false;
};

class MatmulBench {
 public:
  MatmulBench(const Product& product, DType dtype) : product_(product) {
    const std::vector<float> values = normals(product.rows * product.cols);
    const ops::WeightView view{
        .data = values.data(), .dtype = DType::kF32, .rows = product.rows, .cols = product.cols};
    for (int i = 0; i < product.count; ++i) {
      auto packed = ops::PackedWeight::pack({view}, dtype);
      if (!packed.ok()) std::abort();
      weights_.push_back(std::move(*packed));
    }
  }
  void run(Isa isa, ThreadPool& pool, int64_t tokens) {
    x_.resize(static_cast<size_t>(tokens * product_.cols), 0.5f);
    out_.resize(static_cast<size_t>(tokens * product_.rows));
    for (const auto& weight : weights_) {
      ops::matmul(isa, pool, *weight, nullptr, x_.data(), product_.cols, tokens, out_.data(),
                  product_.rows);
    }
  }
  double flops(int64_t tokens) const {
    return 2.0 * static_cast<double>(product_.rows * product_.cols * tokens) * product_.count;
  }

 private:
  Product product_;
  std::vector<std::unique_ptr<ops::PackedWeight>> weights_;
  std::vector<float> x_;
  std::vector<float> out_;
};

void bench_products(double seconds, Isa isa) {
  ThreadPool pool(1);
  fmt::print("matrix products, {} (GFLOP/s)\n{:>22} {:>5}", isa_name(isa), "rows x cols", "dtype");
  const std::vector<int64_t> token_counts{1, 2, 4, 8, 64, 512};
  for (int64_t tokens : token_counts) fmt::print(" {:>7}", fmt::format("T={}", tokens));
  fmt::print("\n");
  for (const Product& product : {Product{1024, 192, 1}, Product{192, 512, 1}, Product{4096, 192, 1},
                                 Product{4096, 2048, 1}}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      MatmulBench bench(product, dtype);
      fmt::print("{:>22} {:>5}", fmt::format("{} x {}", product.rows, product.cols),
                 dtype_name(dtype));
      for (int64_t tokens : token_counts) {
        const double time = seconds_per_call(seconds, [&] { bench.run(isa, pool, tokens); });
        fmt::print(" {:>7.1f}", bench.flops(tokens) / time * 1e-9);
      }
      fmt::print("\n");
    }
  }
}

// The products of a model of 4.7 million parameters: 8 layers (6 of them GDN), hidden 192.
void bench_model(double seconds, Isa isa) {
  const std::vector<Product> products{{1028, 192, 6}, {768, 192, 2}, {192, 256, 8},
                                      {1024, 192, 8}, {192, 512, 8}, {4096, 192, 1, true}};
  ThreadPool pool(1);
  fmt::print("products of a 4.7M-parameter model, {} (tokens per CPU second)\n", isa_name(isa));
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<MatmulBench> benches;
    for (const Product& product : products) benches.emplace_back(product, dtype);
    const auto tokens_per_second = [&](int64_t tokens, int64_t logit_tokens) {
      const double time = seconds_per_call(seconds, [&] {
        for (size_t i = 0; i < products.size(); ++i) {
          benches[i].run(isa, pool, products[i].logits ? logit_tokens : tokens);
        }
      });
      return static_cast<double>(tokens) / time;
    };
    fmt::print("  {}: prompt of 512 {:.0f}, 1 sequence {:.0f}, 8 sequences {:.0f}\n",
               dtype_name(dtype), tokens_per_second(512, 1), tokens_per_second(1, 1),
               tokens_per_second(8, 8));
  }
}

struct AttentionShape {
  const char* name;
  int32_t rows;
  int32_t query_len;
  int32_t context_len;
};

double attention_seconds(double seconds, Isa isa, const attention::HeadShape& heads, DType dtype,
                         const AttentionShape& shape) {
  const int32_t length = shape.context_len + shape.query_len;
  const int32_t pages = (length + 15) / 16;
  auto arena =
      metadata::StepArena::create(Device::kCpu, {.max_rows = shape.rows,
                                                 .max_tokens = shape.rows * shape.query_len,
                                                 .max_pages_per_row = pages});
  if (!arena.ok()) std::abort();
  const metadata::StepInput& input = arena->input();
  *input.num_rows = *input.padded_rows = shape.rows;
  *input.num_checkpoints = 0;
  for (int32_t r = 0; r < shape.rows; ++r) {
    input.rows[r] = {
        .query_len = shape.query_len, .context_len = shape.context_len, .num_pages = pages};
    for (int32_t i = 0; i < pages; ++i) input.page_table[r * pages + i] = 1 + r * pages + i;
  }
  ThreadPool pool(1);
  CpuStream stream(pool);
  metadata::build(stream, *arena);

  const int64_t q_size = int64_t{heads.num_q_heads} * heads.head_dim;
  const int64_t kv_size = int64_t{heads.num_kv_heads} * heads.head_dim;
  const std::vector<float> q = normals(shape.rows * shape.query_len * q_size);
  std::vector<float> out(q.size());
  // Random bits of sixteen would hold NaN; zeros cost the same.
  std::vector<float> cache(static_cast<size_t>((1 + shape.rows * pages) * 2 * 16 * kv_size));
  if (dtype == DType::kF32) cache = normals(static_cast<int64_t>(cache.size()));
  const attention::AttentionParams params{.heads = heads,
                                          .q = q.data(),
                                          .q_stride = q_size,
                                          .out = out.data(),
                                          .out_stride = q_size,
                                          .cache = {.data = cache.data(),
                                                    .dtype = dtype,
                                                    .num_pages = 1 + shape.rows * pages,
                                                    .page_size = 16,
                                                    .page_stride = 2 * 16 * kv_size,
                                                    .value_offset = 16 * kv_size,
                                                    .token_stride = kv_size,
                                                    .head_stride = heads.head_dim},
                                          .scale = 0.1f,
                                          .step = arena->view()};
  const auto kernel =
      isa == Isa::kAvx2 ? attention::attention_tiled : attention::attention_reference;
  return seconds_per_call(seconds, [&] { kernel(params, pool); });
}

void bench_attention(double seconds, Isa isa) {
  fmt::print("attention, {} (GFLOP/s of the seen keys; microseconds a call)\n", isa_name(isa));
  for (const attention::HeadShape& heads :
       {attention::HeadShape{2, 1, 128}, attention::HeadShape{16, 2, 64},
        attention::HeadShape{16, 2, 256}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (const AttentionShape& shape :
           {AttentionShape{"prefill 512", 1, 512, 0}, AttentionShape{"decode 1 x 512", 1, 1, 511},
            AttentionShape{"decode 8 x 512", 8, 1, 511},
            AttentionShape{"decode 1 x 8192", 1, 1, 8191}}) {
        const double time = attention_seconds(seconds, isa, heads, dtype, shape);
        const double keys = shape.query_len * (shape.context_len + (shape.query_len + 1) / 2.0);
        const double flops = 4.0 * shape.rows * keys * heads.num_q_heads * heads.head_dim;
        fmt::print("  Hq {:>2} Hkv {} D {:>3} {}  {:<16} {:>7.1f} {:>9.1f}\n", heads.num_q_heads,
                   heads.num_kv_heads, heads.head_dim, dtype_name(dtype), shape.name,
                   flops / time * 1e-9, time * 1e6);
      }
    }
  }
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
#if defined(__x86_64__)
  if (headrace::cpu_isa() == headrace::Isa::kAvx2) {
    fmt::print("peak of AVX2: {:.1f} GFLOP/s\n", headrace::peak_gflops(seconds));
  }
#endif
  headrace::bench_products(seconds, headrace::cpu_isa());
  headrace::bench_model(seconds, headrace::cpu_isa());
  headrace::bench_attention(seconds, headrace::cpu_isa());
  return 0;
}
