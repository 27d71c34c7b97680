// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "attention/attention_test_problem.h"
#include "attention/cpu/attention_tiled.h"
#include "attention/kv_cache.h"
#include "attention/reference.h"
#include "base/cpu_features.h"
#include "base/float16.h"

namespace headrace::attention {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float round_to(DType dtype, float value) {
  if (dtype == DType::kBF16) return to_float(from_float<BF16>(value));
  if (dtype == DType::kF16) return to_float(from_float<F16>(value));
  return value;
}

std::vector<float> normals(uint32_t key, uint32_t kind, size_t count, float deviation,
                           DType dtype) {
  std::mt19937 random(key * 4 + kind);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = round_to(dtype, normal(random));
  return values;
}

std::vector<test::TestRow> rows_of(const std::vector<Sequence>& sequences) {
  std::vector<test::TestRow> rows;
  for (const Sequence& sequence : sequences) rows.push_back(sequence.row);
  return rows;
}

test::TestStepOptions with_page_size(test::TestStepOptions options, int32_t page_size) {
  options.page_size = page_size;
  return options;
}

}  // namespace

std::vector<NamedKernel> kernels() {
  std::vector<NamedKernel> all{{"reference", attention_reference}};
  if (cpu_isa() == Isa::kAvx2) all.push_back({"tiled", attention_tiled});
  return all;
}

Sequence prefill(uint32_t key, int32_t query_len, int32_t context_len) {
  return {key, {.query_len = query_len, .context_len = context_len}};
}
Sequence decode(uint32_t key, int32_t context_len) { return prefill(key, 1, context_len); }
Sequence verify(uint32_t key, int32_t num_drafts, int32_t context_len) {
  return {key, {.query_len = 1 + num_drafts, .context_len = context_len, .num_drafts = num_drafts}};
}
Sequence padding() { return {0, {}}; }

std::vector<Sequence> mixed_batch() {
  return {decode(1, 130),     padding(),    prefill(2, 70), verify(3, 3, 62),
          prefill(4, 33, 64), decode(5, 1), prefill(6, 1)};
}

KvCache make_cache(const Shape& shape, int32_t num_pages) {
  const int64_t head_dim = shape.heads.head_dim;
  const int64_t padding = shape.stride_padding;
  KvCache cache{.dtype = shape.dtype, .num_pages = num_pages, .page_size = shape.page_size};
  if (shape.layout == Layout::kNhd) {
    cache.head_stride = head_dim + padding;
    cache.token_stride = shape.heads.num_kv_heads * cache.head_stride + padding;
    cache.value_offset = shape.page_size * cache.token_stride + padding;
  } else {
    cache.token_stride = head_dim + padding;
    cache.head_stride = shape.page_size * cache.token_stride + padding;
    cache.value_offset = shape.heads.num_kv_heads * cache.head_stride + padding;
  }
  cache.page_stride = 2 * cache.value_offset + padding;
  return cache;
}

int64_t cache_elements(const KvCache& cache) { return cache.num_pages * cache.page_stride; }

Problem::Problem(const Shape& shape, const std::vector<Sequence>& sequences,
                 test::TestStepOptions options)
    : shape_(shape),
      sequences_(sequences),
      step_(rows_of(sequences), with_page_size(std::move(options), shape.page_size)) {
  const auto head_dim = static_cast<size_t>(shape.heads.head_dim);
  const size_t q_size = static_cast<size_t>(shape.heads.num_q_heads) * head_dim;
  const size_t kv_size = static_cast<size_t>(shape.heads.num_kv_heads) * head_dim;
  for (const Sequence& sequence : sequences_) {
    const auto length = static_cast<size_t>(sequence.row.context_len + sequence.row.query_len);
    q_.push_back(normals(sequence.key, 0, length * q_size, shape.magnitude, DType::kF32));
    k_.push_back(normals(sequence.key, 1, length * kv_size, shape.magnitude, shape.dtype));
    v_.push_back(normals(sequence.key, 2, length * kv_size, 1.0f, shape.dtype));
  }
  sinks_ = normals(77, 0, static_cast<size_t>(shape.heads.num_q_heads), 2.0f, DType::kF32);
  store();
}

void Problem::store() {
  const metadata::StepView& view = step_.view();
  const int64_t head_dim = shape_.heads.head_dim;
  const int64_t kv_heads = shape_.heads.num_kv_heads;
  const int64_t q_size = shape_.heads.num_q_heads * head_dim;
  KvCache cache = make_cache(shape_, step_.num_pages());
  cache_bytes_.resize(static_cast<size_t>(cache_elements(cache)) * dtype_size_bytes(cache.dtype));
  cache.data = cache_bytes_.data();
  const std::vector<float> poison(static_cast<size_t>(cache.page_stride), kNan);
  for (int64_t page = 0; page < cache.num_pages; ++page) {
    store_vector(cache, page * cache.page_stride, cache.page_stride, poison.data());
  }
  // Padding between tokens of q, and tokens that are none, hold NaN too.
  const int64_t q_stride = q_size + 5;
  packed_q_.assign(static_cast<size_t>(view.limits.max_tokens * q_stride), kNan);
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const test::TestRow& row = sequences_[s].row;
    const int32_t* pages =
        view.page_table + static_cast<int64_t>(s) * view.limits.max_pages_per_row;
    for (int64_t position = 0; position < row.context_len + row.query_len; ++position) {
      for (int64_t head = 0; head < kv_heads; ++head) {
        const int64_t offset = key_offset_of_position(cache, pages, position, head);
        const int64_t source = (position * kv_heads + head) * head_dim;
        store_vector(cache, offset, head_dim, k_[s].data() + source);
        store_vector(cache, offset + cache.value_offset, head_dim, v_[s].data() + source);
      }
    }
    for (int64_t i = 0; i < row.query_len; ++i) {
      const float* source = q_[s].data() + (row.context_len + i) * q_size;
      std::copy(source, source + q_size,
                packed_q_.data() + (view.query_start_i64[s] + i) * q_stride);
    }
  }
  params_ = {.heads = shape_.heads,
             .q = packed_q_.data(),
             .q_stride = q_stride,
             .out_stride = q_size,
             .cache = cache,
             .scale = shape_.scale,
             .window = shape_.window,
             .soft_cap = shape_.soft_cap,
             .sinks = shape_.sinks ? sinks_.data() : nullptr,
             .step = view};
}

Output Problem::run(const NamedKernel& kernel) {
  const auto tokens = static_cast<size_t>(step_.view().limits.max_tokens);
  const auto heads = static_cast<size_t>(shape_.heads.num_q_heads);
  Output output;
  output.out.assign(tokens * heads * static_cast<size_t>(shape_.heads.head_dim), kNan);
  output.lse.assign(tokens * heads, kNan);
  AttentionParams params = params_;
  params.out = output.out.data();
  params.lse = shape_.lse ? output.lse.data() : nullptr;
  kernel.run(params, step_.pool());
  return output;
}

Output Problem::exact() const {
  const auto heads = static_cast<size_t>(shape_.heads.num_q_heads);
  const auto kv_heads = static_cast<size_t>(shape_.heads.num_kv_heads);
  const auto dim = static_cast<size_t>(shape_.heads.head_dim);
  const auto tokens = static_cast<size_t>(step_.view().limits.max_tokens);
  Output output;
  output.out.assign(tokens * heads * dim, 0.0f);
  output.lse.assign(tokens * heads, -std::numeric_limits<float>::infinity());
  size_t token = 0;
  for (size_t s = 0; s < sequences_.size(); ++s) {
    const test::TestRow& row = sequences_[s].row;
    for (int32_t i = 0; i < row.query_len; ++i, ++token) {
      const int64_t position = row.context_len + i;
      for (size_t h = 0; h < heads; ++h) {
        const size_t kv_head = h / (heads / kv_heads);
        const float* query = q_[s].data() + (static_cast<size_t>(position) * heads + h) * dim;
        std::vector<double> scores;
        double max = shape_.sinks ? sinks_[h] : -std::numeric_limits<double>::infinity();
        const int64_t begin =
            shape_.window > 0 ? std::max<int64_t>(0, position + 1 - shape_.window) : 0;
        for (int64_t key = begin; key <= position; ++key) {
          const float* k = k_[s].data() + (static_cast<size_t>(key) * kv_heads + kv_head) * dim;
          double dot = 0.0;
          for (size_t d = 0; d < dim; ++d) {
            dot += static_cast<double>(query[d]) * static_cast<double>(k[d]);
          }
          dot *= shape_.scale;
          if (shape_.soft_cap > 0.0f) dot = shape_.soft_cap * std::tanh(dot / shape_.soft_cap);
          scores.push_back(dot);
          max = std::max(max, dot);
        }
        double sum = shape_.sinks ? std::exp(sinks_[h] - max) : 0.0;
        std::vector<double> mixed(dim);
        for (size_t j = 0; j < scores.size(); ++j) {
          const double weight = std::exp(scores[j] - max);
          const size_t key = static_cast<size_t>(begin) + j;
          const float* v = v_[s].data() + (key * kv_heads + kv_head) * dim;
          sum += weight;
          for (size_t d = 0; d < dim; ++d) mixed[d] += weight * v[d];
        }
        for (size_t d = 0; d < dim; ++d) {
          output.out[(token * heads + h) * dim + d] = static_cast<float>(mixed[d] / sum);
        }
        output.lse[token * heads + h] = static_cast<float>(max + std::log(sum));
      }
    }
  }
  return output;
}

}  // namespace headrace::attention
