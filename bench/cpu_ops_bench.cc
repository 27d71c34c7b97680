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

#include "base/cpu_features.h"
#include "ops/cpu/matmul.h"

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

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  headrace::bench_products(seconds, headrace::cpu_isa());
  headrace::bench_model(seconds, headrace::cpu_isa());
  return 0;
}
