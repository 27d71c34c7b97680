// SPDX-License-Identifier: Apache-2.0
// Merging two partial attention results over disjoint sets of keys into the result over their
// union. Knows nothing of where the parts come from.
#pragma once

#include <cstdint>

namespace headrace::attention {

// For each of `num_vectors` vectors of `head_dim` elements:
//   lse = log(exp(lse_a) + exp(lse_b));  o = o_a · exp(lse_a − lse) + o_b · exp(lse_b − lse).
// A part with lse = −inf holds no keys: its o is ignored, whatever it is. Both −inf: o = 0 and
// lse = −inf. `o` and `lse` may be those of a or b.
void merge_state(const float* o_a,    // [num_vectors, head_dim]
                 const float* lse_a,  // [num_vectors]
                 const float* o_b,    // [num_vectors, head_dim]
                 const float* lse_b,  // [num_vectors]
                 int64_t num_vectors, int32_t head_dim,
                 float* o,     // [num_vectors, head_dim]
                 float* lse);  // [num_vectors]

}  // namespace headrace::attention
