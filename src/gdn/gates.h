// SPDX-License-Identifier: Apache-2.0
// The decay gate: how it is made from the projection, and how a consumer brings any gate format
// back to a log decay that is safe to sum. All fp32.
#pragma once

#include <cmath>
#include <cstdint>

#include "gdn/gdn_params.h"
#include "metadata/host_device.h"

namespace headrace::gdn {

// Log decays are clamped here before they are summed: exp of it is already below the smallest
// normal float, and differences of sums stay finite where −inf − (−inf) would not.
inline constexpr float kMinLogDecay = -88.0f;
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

HEADRACE_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
HEADRACE_HOST_DEVICE inline float silu(float x) { return x / (1.0f + std::exp(-x)); }

// log(1 + e^x). Above 20 the difference to x is below half a float ulp, so returning x is exact and
// keeps exp from overflowing.
HEADRACE_HOST_DEVICE inline float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

// g = −exp(a_log) · softplus(a + dt_bias)
HEADRACE_HOST_DEVICE inline float log_decay(float a, float a_log, float dt_bias) {
  return -std::exp(a_log) * softplus(a + dt_bias);
}

// What the producer hands over.
HEADRACE_HOST_DEVICE inline float encode_gate(float g, GateFormat format) {
  switch (format) {
    case GateFormat::kLog2:
      return g * kLog2E;
    case GateFormat::kLinear:
      return std::exp(g);
    case GateFormat::kLog:
      break;
  }
  return g;
}

// What the consumer computes with: a log decay ≥ kMinLogDecay. NaN stays NaN.
HEADRACE_HOST_DEVICE inline float decode_gate(float gate, GateFormat format) {
  constexpr float kSmallestNormal = 0x1p-126f;
  float g = gate;
  if (format == GateFormat::kLog2) {
    g = gate * kLn2;
  } else if (format == GateFormat::kLinear) {
    g = gate < kSmallestNormal ? kMinLogDecay : std::log(gate);
  }
  return g < kMinLogDecay ? kMinLogDecay : g;
}

}  // namespace headrace::gdn
