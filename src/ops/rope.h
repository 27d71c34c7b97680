// SPDX-License-Identifier: Apache-2.0
// Inverse frequencies of rotary embeddings, made once at load, and the rotation of one head.
// Matches transformers: inverse frequencies, angles, cos and sin are fp32.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace::ops {

// Dims of a head that rotate: head_dim · partial_rotary_factor.
int32_t rope_rotary_dim(int32_t head_dim, double partial_rotary_factor);

// theta^(−2i / rotary_dim), i = 0 … rotary_dim/2 − 1.
std::vector<float> rope_default_inv_freq(double theta, int32_t rotary_dim);
// All divided by `factor`: positions are squeezed.
std::vector<float> rope_linear_inv_freq(double theta, int32_t rotary_dim, double factor);
// Llama 3: wavelengths above original_max_positions / low_freq_factor are divided by `factor`,
// those below original_max_positions / high_freq_factor stay, between them the two are blended.
std::vector<float> rope_llama3_inv_freq(double theta, int32_t rotary_dim, double factor,
                                        double low_freq_factor, double high_freq_factor,
                                        int64_t original_max_positions);

// cos and sin of position · inv_freq (an fp32 product), times attention_factor.
void rope_cos_sin(const float* inv_freq,  // [rotary_dim / 2]
                  int32_t rotary_dim, float attention_factor, int32_t position,
                  float* cos,   // [rotary_dim / 2]
                  float* sin);  // [rotary_dim / 2]

// Rotates the pairs (i, i + rotary_dim/2) of x; the dims past rotary_dim stay.
void rope_rotate(const float* cos,  // [rotary_dim / 2]
                 const float* sin,  // [rotary_dim / 2]
                 int32_t rotary_dim,
                 float* x);  // [≥ rotary_dim]

}  // namespace headrace::ops
