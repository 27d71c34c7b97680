// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace headrace::ops {

int32_t rope_rotary_dim(int32_t head_dim, double partial_rotary_factor) {
  return static_cast<int32_t>(head_dim * partial_rotary_factor);
}

std::vector<float> rope_default_inv_freq(double theta, int32_t rotary_dim) {
  HEADRACE_CHECK(rotary_dim >= 0 && rotary_dim % 2 == 0,
                 "rotary dim " + std::to_string(rotary_dim));
  std::vector<float> inv_freq;
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    // The exponent is an fp32 quotient and the power is rounded to fp32 before it is inverted: an
    // error of one ulp here is an angle error of 1e-3 at position 16,384.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    const float power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    inv_freq.push_back(1.0f / power);
  }
  return inv_freq;
}

std::vector<float> rope_linear_inv_freq(double theta, int32_t rotary_dim, double factor) {
  std::vector<float> inv_freq = rope_default_inv_freq(theta, rotary_dim);
  for (float& f : inv_freq) f /= static_cast<float>(factor);
  return inv_freq;
}

std::vector<float> rope_llama3_inv_freq(double theta, int32_t rotary_dim, double factor,
                                        double low_freq_factor, double high_freq_factor,
                                        int64_t original_max_positions) {
  const auto original = static_cast<double>(original_max_positions);
  const auto longest = static_cast<float>(original / low_freq_factor);
  const auto shortest = static_cast<float>(original / high_freq_factor);
  const auto divisor = static_cast<float>(factor);
  std::vector<float> inv_freq = rope_default_inv_freq(theta, rotary_dim);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / f;
    if (wavelength > longest) {
      f /= divisor;
    } else if (wavelength >= shortest) {
      const float keep =
          (static_cast<float>(original) / wavelength - static_cast<float>(low_freq_factor)) /
          static_cast<float>(high_freq_factor - low_freq_factor);
      f = (1.0f - keep) * f / divisor + keep * f;
    }
  }
  return inv_freq;
}

void rope_cos_sin(const float* inv_freq, int32_t rotary_dim, float attention_factor,
                  int32_t position, float* cos, float* sin) {
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    cos[i] = std::cos(angle) * attention_factor;
    sin[i] = std::sin(angle) * attention_factor;
  }
}

void rope_rotate(const float* cos, const float* sin, int32_t rotary_dim, float* x) {
  float* first = x;
  float* second = x + rotary_dim / 2;
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

}  // namespace headrace::ops
