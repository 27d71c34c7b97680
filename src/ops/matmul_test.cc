// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"

namespace headrace::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Isa> isas() {
  if (cpu_isa() == Isa::kAvx2) return {Isa::kScalar, Isa::kAvx2};
  return {Isa::kScalar};
}

std::vector<float> normals(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// A checkpoint's matrix in any dtype, and its values as that dtype holds them.
struct Matrix {
  Matrix(int64_t rows, int64_t cols, DType dtype, uint32_t seed)
      : values(normals(static_cast<size_t>(rows * cols), seed)) {
    for (float& value : values) {
      if (dtype == DType::kBF16) {
        halves.push_back(from_float<BF16>(value).bits);
        value = to_float(BF16{halves.back()});
      } else if (dtype == DType::kF16) {
        halves.push_back(from_float<F16>(value).bits);
        value = to_float(F16{halves.back()});
      }
    }
    view = {.data = halves.empty() ? static_cast<const void*>(values.data()) : halves.data(),
            .dtype = dtype,
            .rows = rows,
            .cols = cols};
  }
  std::vector<float> values;
  std::vector<uint16_t> halves;
  WeightView view;
};

std::unique_ptr<PackedWeight> pack(const std::vector<WeightView>& parts, DType dtype) {
  auto packed = PackedWeight::pack(parts, dtype);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  return std::move(*packed);
}

class Matmul : public testing::TestWithParam<Isa> {
 protected:
  // Output [tokens, rows + 3], NaN where nothing was written.
  std::vector<float> run(const PackedWeight& weight, const std::vector<float>& x, int64_t tokens,
                         const float* bias = nullptr, int threads = 1) {
    ThreadPool pool(threads);
    const int64_t stride = weight.rows() + 3;
    std::vector<float> out(static_cast<size_t>((tokens + 1) * stride), kNan);
    matmul(GetParam(), pool, weight, bias, x.data(), weight.cols() + 5, tokens, out.data(), stride);
    return out;
  }
  // Inputs [tokens, cols + 5], NaN in the padding.
  static std::vector<float> inputs(int64_t tokens, int64_t cols, uint32_t seed) {
    std::vector<float> x = normals(static_cast<size_t>(tokens * (cols + 5)), seed);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = cols; i < cols + 5; ++i) x[static_cast<size_t>(t * (cols + 5) + i)] = kNan;
    }
    return x;
  }
};

TEST_P(Matmul, AgainstDouble) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int64_t rows : {1, 7, 8, 9, 16, 17, 31, 64, 100, 133}) {
      for (int64_t cols : {1, 8, 33, 192}) {
        for (int64_t tokens : {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 50}) {
          SCOPED_TRACE(fmt::format("{} [{}, {}] · {}", dtype_name(dtype), rows, cols, tokens));
          const Matrix matrix(rows, cols, dtype, 1);
          const auto weight = pack({matrix.view}, dtype);
          const std::vector<float> x = inputs(tokens, cols, 2);
          const std::vector<float> bias = normals(static_cast<size_t>(rows), 3);
          const bool has_bias = tokens % 2 == 1;
          const auto out = run(*weight, x, tokens, has_bias ? bias.data() : nullptr);
          for (int64_t t = 0; t <= tokens; ++t) {
            for (int64_t r = 0; r < rows + 3; ++r) {
              const float actual = out[static_cast<size_t>(t * (rows + 3) + r)];
              if (t == tokens || r >= rows) {
                ASSERT_TRUE(std::isnan(actual)) << "wrote outside at " << t << ", " << r;
                continue;
              }
              double wanted = has_bias ? bias[static_cast<size_t>(r)] : 0.0;
              double magnitude = 1.0;
              for (int64_t k = 0; k < cols; ++k) {
                const double product =
                    static_cast<double>(matrix.values[static_cast<size_t>(r * cols + k)]) *
                    static_cast<double>(x[static_cast<size_t>(t * (cols + 5) + k)]);
                wanted += product;
                magnitude += std::abs(product);
              }
              ASSERT_NEAR(actual, wanted, 1e-6 * magnitude) << t << ", " << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(Matmul, BitEqualForAnyNumberOfTokensAndThreads) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Matrix matrix(200, 300, dtype, 4);
    const auto weight = pack({matrix.view}, dtype);
    const std::vector<float> x = inputs(230, 300, 5);
    const auto wanted = run(*weight, x, 230);
    for (int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 24, 25, 191, 192, 193}) {
      for (int threads : {1, 2, 3}) {
        const auto out = run(*weight, x, tokens, nullptr, threads);
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t r = 0; r < 200; ++r) {
            const auto at = static_cast<size_t>(t * 203 + r);
            ASSERT_EQ(out[at], wanted[at]) << tokens << " tokens, " << threads << " threads";
          }
        }
      }
    }
  }
}

TEST_P(Matmul, ConvertsAndStacksParts) {
  const Matrix a(5, 24, DType::kF32, 6);
  const Matrix b(20, 24, DType::kBF16, 7);
  const Matrix c(9, 24, DType::kF16, 8);
  const std::vector<float> x = inputs(3, 24, 9);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto weight = pack({a.view, b.view, c.view}, dtype);
    ASSERT_EQ(weight->rows(), 34);
    ASSERT_EQ(weight->cols(), 24);
    const auto out = run(*weight, x, 3);
    int64_t first = 0;
    for (const Matrix* part : {&a, &b, &c}) {
      const auto alone = run(*pack({part->view}, dtype), x, 3);
      const int64_t rows = part->view.rows;
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(out[static_cast<size_t>(t * 37 + first + r)],
                    alone[static_cast<size_t>(t * (rows + 3) + r)]);
        }
      }
      first += rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Matmul, testing::ValuesIn(isas()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

TEST(PackedWeight, HasTheSizeOfItsDtype) {
  const Matrix matrix(17, 10, DType::kF32, 1);
  EXPECT_EQ(pack({matrix.view}, DType::kF32)->size_bytes(), 32 * 10 * 4);
  EXPECT_EQ(pack({matrix.view}, DType::kBF16)->size_bytes(), 32 * 10 * 2);
}

TEST(PackedWeight, ErrorsSayWhatIsWrong) {
  const Matrix matrix(4, 10, DType::kF32, 1);
  const Matrix other(4, 11, DType::kF32, 1);
  const auto message = [](const std::vector<WeightView>& parts, DType dtype) {
    const auto packed = PackedWeight::pack(parts, dtype);
    return packed.ok() ? std::string("ok") : packed.status().message();
  };
  EXPECT_THAT(message({}, DType::kF32), testing::HasSubstr("no parts"));
  EXPECT_THAT(message({matrix.view}, DType::kI32), testing::HasSubstr("int32"));
  EXPECT_THAT(message({matrix.view, other.view}, DType::kF32), testing::HasSubstr("10 and 11"));
  WeightView broken = matrix.view;
  broken.dtype = DType::kFP8E4M3;
  EXPECT_THAT(message({broken}, DType::kF32), testing::HasSubstr("fp8"));
  broken = matrix.view;
  broken.rows = 0;
  EXPECT_THAT(message({broken}, DType::kF32), testing::HasSubstr("[0, 10]"));
  broken = matrix.view;
  broken.data = nullptr;
  EXPECT_THAT(message({broken}, DType::kF32), testing::HasSubstr("no data"));
  const float scale = 1.0f;
  broken = matrix.view;
  broken.scale = &scale;
  EXPECT_THAT(message({broken}, DType::kF32), testing::HasSubstr("scaled"));
}

}  // namespace
}  // namespace headrace::ops
