// SPDX-License-Identifier: Apache-2.0
// Merging two attention results over disjoint sets of keys into the result over their union: what
// makes it possible to attend to a shared prefix once, to keys on two devices, or in any other
// pieces.
#pragma once

#include <cstdint>

#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace {

// For each of num_vectors vectors of head_dim elements, with lse the natural log of the sum of exp:
//   lse = log(exp(lse_a) + exp(lse_b));  o = o_a · exp(lse_a − lse) + o_b · exp(lse_b − lse).
// A part with lse = −inf holds no keys: its o is ignored, whatever it is. Both −inf: o = 0 and
// lse = −inf. o and lse may be those of a or b, but not overlap them in another way.
struct MergeStateParams {
  const void* o_a = nullptr;     // [num_vectors, head_dim]
  const float* lse_a = nullptr;  // [num_vectors]
  const void* o_b = nullptr;     // [num_vectors, head_dim]
  const float* lse_b = nullptr;  // [num_vectors]
  void* o = nullptr;             // [num_vectors, head_dim]
  float* lse = nullptr;          // [num_vectors]; may be null
  DType dtype = DType::kF32;     // of o_a, o_b and o: fp32, bf16 or fp16
  int64_t num_vectors = 0;       // tokens · query heads
  int32_t head_dim = 0;          // any
};

// All arrays in host memory. kInvalidArgument: a missing array, a type or a size that is none.
Status merge_state_on_host(const MergeStateParams& params);

// All arrays in device memory; `stream` is a cudaStream_t. One launch, which may be captured.
// Besides the above: kUnsupported in a build without CUDA.
Status merge_state_on_device(const MergeStateParams& params, void* stream);

}  // namespace headrace
