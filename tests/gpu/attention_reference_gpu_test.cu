// SPDX-License-Identifier: Apache-2.0
// The fp64 kernel that the attention tests compare with, against the same maths on the CPU: scores,
// weights and sums in plain loops, from the bytes of q and of the cache as they lie on the device.
#include <gtest/gtest.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/gpu/attention_problem.h"

namespace headrace::attention {
namespace {

template <typename T>
std::vector<T> from_device(const void* data, int64_t count) {
  std::vector<T> copy(static_cast<size_t>(count));
  EXPECT_EQ(cudaMemcpy(copy.data(), data, copy.size() * sizeof(T), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return copy;
}

// A device array as doubles.
std::vector<double> widened(const void* data, DType dtype, int64_t count) {
  std::vector<double> values;
  const auto add = [&](const auto& elements) {
    for (const auto& element : elements) values.push_back(static_cast<float>(element));
  };
  if (dtype == DType::kBF16) add(from_device<__nv_bfloat16>(data, count));
  if (dtype == DType::kF16) add(from_device<__half>(data, count));
  if (dtype == DType::kFP8E4M3) add(from_device<__nv_fp8_e4m3>(data, count));
  if (dtype == DType::kF32) add(from_device<float>(data, count));
  return values;
}

// Worst absolute difference of out and of lse.
double worst_difference(const GpuShape& shape, const std::vector<test::TestRow>& rows) {
  GpuAttentionProblem problem(shape, rows);
  const GpuAttentionProblem::Exact exact = problem.exact();
  const AttentionParams& params = problem.params();
  const KvCache& cache = params.cache;
  const metadata::Limits& limits = problem.step().limits;
  const int64_t heads = shape.heads.num_q_heads;
  const int64_t kv_heads = shape.heads.num_kv_heads;
  const int64_t dim = shape.heads.head_dim;
  const auto q = widened(params.q, params.io_dtype, limits.max_tokens * params.q_stride);
  const auto kv = widened(cache.data, cache.dtype, cache.num_pages * cache.page_stride);
  const auto table = from_device<int32_t>(problem.step().page_table,
                                          int64_t{limits.max_rows} * limits.max_pages_per_row);
  const bool scaled = cache.key_scale != nullptr;
  const auto key_scales = scaled ? from_device<float>(cache.key_scale, kv_heads)
                                 : std::vector<float>(static_cast<size_t>(kv_heads), 1.0f);
  const auto value_scales = scaled ? from_device<float>(cache.value_scale, kv_heads) : key_scales;
  const auto sinks =
      params.sinks != nullptr ? from_device<float>(params.sinks, heads) : std::vector<float>{};

  double worst = 0.0;
  int64_t token = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto key_at = [&](int64_t position, int64_t kv_head) {
      const int64_t page = table[r * static_cast<size_t>(limits.max_pages_per_row) +
                                 static_cast<size_t>(position / shape.page_size)];
      return page * cache.page_stride + position % shape.page_size * cache.token_stride +
             kv_head * cache.head_stride;
    };
    for (int32_t i = 0; i < rows[r].query_len; ++i, ++token) {
      const int64_t position = rows[r].context_len + i;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t kv_head = head / (heads / kv_heads);
        const auto scale_at = static_cast<size_t>(shape.scale_per_head ? kv_head : 0);
        const int64_t first =
            shape.window > 0 ? std::max<int64_t>(0, position + 1 - shape.window) : 0;
        double sum = sinks.empty() ? 0.0 : std::exp(double{sinks[static_cast<size_t>(head)]});
        std::vector<double> mixed(static_cast<size_t>(dim), 0.0);
        for (int64_t key = first; key <= position; ++key) {
          const int64_t at = key_at(key, kv_head);
          double score = 0.0;
          for (int64_t d = 0; d < dim; ++d) {
            score += q[static_cast<size_t>(token * params.q_stride + head * dim + d)] *
                     kv[static_cast<size_t>(at + d)];
          }
          score *= double{params.scale} * key_scales[scale_at];
          if (shape.soft_cap > 0) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
          const double weight = std::exp(score);  // scores are small here: no maximum is needed
          sum += weight;
          for (int64_t d = 0; d < dim; ++d) {
            mixed[static_cast<size_t>(d)] +=
                weight * kv[static_cast<size_t>(at + cache.value_offset + d)];
          }
        }
        const auto vector = static_cast<size_t>(token * heads + head);
        worst = std::max(worst, std::abs(exact.lse[vector] - std::log(sum)));
        for (int64_t d = 0; d < dim; ++d) {
          const double want = mixed[static_cast<size_t>(d)] / sum * value_scales[scale_at];
          const double difference = std::abs(
              exact.out[vector * static_cast<size_t>(dim) + static_cast<size_t>(d)] - want);
          worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
        }
      }
    }
  }
  return worst;
}

TEST(AttentionReferenceGpu, EqualsTheCpusMaths) {
  const std::vector<test::TestRow> rows = {
      decode_row(2), {}, verify_row(70, 3), prefill_row(20, 33), prefill_row(17), decode_row(300)};
  GpuShape plain;
  EXPECT_LT(worst_difference(plain, rows), 1e-10);
  GpuShape odd;
  odd.heads = {.num_q_heads = 15, .num_kv_heads = 3, .head_dim = 64};
  odd.io_dtype = odd.kv_dtype = DType::kF16;
  odd.is_hnd = true;
  odd.page_size = 8;
  odd.stride_padding = 3;
  odd.window = 21;
  odd.sinks = true;
  EXPECT_LT(worst_difference(odd, rows), 1e-10);
  GpuShape fp8;
  fp8.heads.head_dim = 256;
  fp8.kv_dtype = DType::kFP8E4M3;
  fp8.scale_per_head = true;
  fp8.soft_cap = 5.0f;
  EXPECT_LT(worst_difference(fp8, rows), 1e-10);
  fp8.scale_per_head = false;
  EXPECT_LT(worst_difference(fp8, rows), 1e-10);
}

}  // namespace
}  // namespace headrace::attention
