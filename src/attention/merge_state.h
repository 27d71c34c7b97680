// SPDX-License-Identifier: Apache-2.0
// The rule by which two attention results are merged (headrace/merge_state.h), for one vector. The
// host and the device run the same code.
#pragma once

#include <cmath>

#include "headrace/merge_state.h"
#include "metadata/host_device.h"

namespace headrace::attention {

struct MergeWeights {
  float a = 0.0f;  // what o_a is multiplied with; 0: o_a must not be read
  float b = 0.0f;
  float lse = -INFINITY;
};

HEADRACE_HOST_DEVICE inline MergeWeights merge_weights(float lse_a, float lse_b) {
  const float max = lse_a > lse_b ? lse_a : lse_b;
  if (max == -INFINITY) return {};
  // Only differences are exponentiated; −inf − (−inf) must not come up.
  const float a = lse_a == -INFINITY ? 0.0f : expf(lse_a - max);
  const float b = lse_b == -INFINITY ? 0.0f : expf(lse_b - max);
  return {a / (a + b), b / (a + b), max + logf(a + b)};
}

// NaN times zero must not come up either.
HEADRACE_HOST_DEVICE inline float merge_element(const MergeWeights& weights, float a, float b) {
  const float from_a = weights.a == 0.0f ? 0.0f : weights.a * a;
  const float from_b = weights.b == 0.0f ? 0.0f : weights.b * b;
  return from_a + from_b;
}

// What both launches want of their arguments.
Status check_merge_state(const MergeStateParams& params);

}  // namespace headrace::attention
