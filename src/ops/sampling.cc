// SPDX-License-Identifier: Apache-2.0
#include "ops/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/cpu_features.h"
#include "ops/philox.h"
#include "ops/vector_kernels.h"

namespace headrace::ops {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

float value_of(const float* logits, int64_t id) {
  return std::isnan(logits[id]) ? kNone : logits[id];
}

// Ranks tokens: higher logit first, then lower id. A total order, hence one answer everywhere.
struct Better {
  const float* logits;
  bool operator()(int32_t a, int32_t b) const {
    const float value_a = value_of(logits, a);
    const float value_b = value_of(logits, b);
    return value_a != value_b ? value_a > value_b : a < b;
  }
};

// The candidates, and the weight of each: exp((logit − max) / temperature).
struct Distribution {
  const float* logits;
  float max;
  double temperature;

  double weight(int64_t id) const {
    const float value = value_of(logits, id);
    if (value == max) return 1.0;  // also when both are infinite
    return std::exp((static_cast<double>(value) - static_cast<double>(max)) / temperature);
  }
  double total(const std::vector<int32_t>& ids) const {
    return std::accumulate(ids.begin(), ids.end(), 0.0,
                           [this](double sum, int32_t id) { return sum + weight(id); });
  }
};

void keep_top_k(std::vector<int32_t>& ids, int32_t top_k, const Better& better) {
  const auto keep = static_cast<size_t>(top_k);
  if (top_k <= 0 || keep >= ids.size()) return;
  std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), better);
  ids.resize(keep);
  // nth_element leaves an order that the standard does not fix; sums need one.
  std::sort(ids.begin(), ids.end());
}

// The fewest best tokens whose weights reach top_p of the total. Sorts only as far as it must.
void keep_top_p(std::vector<int32_t>& ids, float top_p, const Better& better,
                const Distribution& distribution) {
  if (top_p >= 1.0f) return;
  const double wanted = static_cast<double>(top_p) * distribution.total(ids);
  double sum = 0.0;
  size_t sorted = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(ids.size(), std::max<size_t>(256, 4 * sorted));
      const auto offset = [&](size_t n) { return ids.begin() + static_cast<std::ptrdiff_t>(n); };
      std::partial_sort(offset(i), offset(sorted), ids.end(), better);
    }
    sum += distribution.weight(ids[i]);
    if (sum >= wanted) {
      ids.resize(i + 1);
      break;
    }
  }
  std::sort(ids.begin(), ids.end());
}

}  // namespace

double sampling_uniform(uint64_t seed, uint32_t choice_index, uint32_t output_position) {
  const auto words = philox4x32({output_position, choice_index, 0, 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (static_cast<uint64_t>(words[0]) << 32 | words[1]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

int32_t sample_token(const float* logits, int64_t vocab, const RowSampling& sampling, int32_t draft,
                     std::vector<int32_t>& scratch) {
  const auto best = static_cast<int32_t>(vector_kernels(cpu_isa()).argmax(logits, vocab));
  if (value_of(logits, best) == kNone) return kNoUsableToken;
  if (!(sampling.temperature > 0.0f)) return best;

  const Better better{logits};
  const Distribution distribution{logits, value_of(logits, best), sampling.temperature};
  std::vector<int32_t>& ids = scratch;
  ids.resize(static_cast<size_t>(vocab));
  std::iota(ids.begin(), ids.end(), 0);
  keep_top_k(ids, sampling.top_k, better);
  keep_top_p(ids, sampling.top_p, better, distribution);

  const auto position = static_cast<uint32_t>(sampling.output_position + draft);
  const double target =
      sampling_uniform(sampling.seed, sampling.choice_index, position) * distribution.total(ids);
  double sum = 0.0;
  for (const int32_t id : ids) {
    sum += distribution.weight(id);
    if (sum > target) return id;
  }
  return best;
}

}  // namespace headrace::ops
