// SPDX-License-Identifier: Apache-2.0
// The kernels behind GpuGdnProblem: inputs, the delta rule in fp64, comparisons. Each submits to
// the stream and throws when a launch fails.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gdn/parts_params.h"
#include "gdn/slot_layout.h"
#include "tests/gpu/gdn_problem.h"

namespace headrace::gdn {

// q, k, v, gates and β of the step's tokens.
void fill_tokens(cudaStream_t stream, const GpuGdnShape& shape, const DeltaRuleParams& params);
// States of initial slots, and the accepted tokens of their pending windows.
void fill_slots(cudaStream_t stream, const GpuGdnShape& shape, const DeltaRuleParams& params,
                const SlotLayout& layout);

// The answer. It starts from the slots of `before`, and writes
//   out     [T, Hv · V]
//   states  [R + N, Hv, V, K]: final states of the rows, then states at the checkpoints.
void exact_delta_rule(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                      const float* before, double* out, double* states);

// What an output or a state differs from the exact one by, summed up.
struct ErrorSums {
  double error2 = 0;  // ‖got − exact‖²
  double exact2 = 0;  // ‖exact‖²
  double worst_token =
      0;  // largest ‖got − exact‖ of a token (a row of S) over ‖exact‖ of it or of
          // the average token, whichever is larger, squared; filled by a second pass
};
// sums [R, Hv] over out, zeroed before.
void sum_output_errors(cudaStream_t stream, const DeltaRuleParams& params, const double* exact,
                       ErrorSums* sums);
// sums [R + N, Hv] over the states that the rows and checkpoints of the step left in their slots.
void sum_state_errors(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                      const double* exact, ErrorSums* sums);

// Counts what is not as it must be.
struct Untouched {
  uint64_t outputs = 0;  // written outputs of tokens that are not of `rows`, or of paddings
  uint64_t words = 0;    // words of slots that differ from `before` and that no row of `rows` owns
  int64_t first_word = 0;
};
void check_untouched(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                     RowSet rows, int64_t out_elements, const float* before, Untouched* found);

// Adds up a hash of every word and its place.
void add_digest(cudaStream_t stream, const void* data, int64_t bytes, uint64_t salt, uint64_t* sum);

}  // namespace headrace::gdn
