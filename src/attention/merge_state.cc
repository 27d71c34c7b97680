// SPDX-License-Identifier: Apache-2.0
#include "attention/merge_state.h"

#include <cmath>
#include <limits>

namespace headrace::attention {

void merge_state(const float* o_a, const float* lse_a, const float* o_b, const float* lse_b,
                 int64_t num_vectors, int32_t head_dim, float* o, float* lse) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < num_vectors; ++i) {
    const float a = lse_a[i];
    const float b = lse_b[i];
    const float max = a > b ? a : b;
    // Only differences are exponentiated; −inf − (−inf) must not come up.
    const float weight_a = a == kNone ? 0.0f : std::exp(a - max);
    const float weight_b = b == kNone ? 0.0f : std::exp(b - max);
    const float sum = weight_a + weight_b;
    for (int64_t d = i * head_dim; d < (i + 1) * head_dim; ++d) {
      const float from_a = a == kNone ? 0.0f : weight_a / sum * o_a[d];
      const float from_b = b == kNone ? 0.0f : weight_b / sum * o_b[d];
      o[d] = from_a + from_b;
    }
    lse[i] = max == kNone ? kNone : max + std::log(sum);
  }
}

}  // namespace headrace::attention
