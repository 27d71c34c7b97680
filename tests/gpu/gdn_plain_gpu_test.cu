// SPDX-License-Identifier: Apache-2.0
// The plain delta rule on the GPU against fp64: every element type, rows of every kind in one step,
// replay of accepted windows, checkpoints, shapes that the other paths leave to it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gdn/cuda/plain.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/gdn_problem.h"
#include "tests/gpu/pairwise.h"

namespace headrace::gdn {
namespace {

using attention::check_status;
using attention::value_of;
using test::TestRow;

std::string run(const GpuGdnShape& shape, const std::vector<TestRow>& rows,
                const test::TestStepOptions& options, RowSet set, double tolerance) {
  GpuGdnProblem problem(shape, rows, options);
  check_status(launch_plain_delta_rule(problem.stream().handle(),
                                       value_of(prepare_plain_delta_rule(problem.params(), set))));
  return problem.check(set, tolerance, shape.state_dtype == DType::kBF16 ? 5e-3 : tolerance);
}

// Rows of all kinds; starts from zeros and from slots that two rows share, in place and not, with
// and without accepted tokens, discarded ends.
std::vector<TestRow> mixed_rows() {
  return {
      {.query_len = 70},
      {},
      {.query_len = 1, .context_len = 40},
      {.query_len = 4, .context_len = 9, .num_drafts = 3},
      {.query_len = 130, .context_len = 100},
      {.query_len = 1, .context_len = 7, .num_accepted = 2},
      {.query_len = 3, .context_len = 12, .num_drafts = 2, .num_accepted = 3},
      {.query_len = 20, .context_len = 5, .initial_slot = 30, .final_slot = 31},
      {.query_len = 1, .context_len = 5, .initial_slot = 30, .final_slot = 32, .num_accepted = 0},
      {.query_len = 5, .context_len = 44, .num_drafts = 4, .final_slot = 0},
      {.query_len = 16,
       .context_len = 3,
       .num_drafts = 15,
       .initial_slot = 33,
       .final_slot = 34,
       .num_accepted = 0},
      {.query_len = 1, .context_len = 64, .initial_slot = 0, .final_slot = 35},
      {.query_len = 6, .context_len = 17, .num_accepted = 4},
      {.query_len = 2}};
}

TEST(GdnPlainGpu, RowsOfEveryKind) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  constexpr GateKind kGates[] = {GateKind::kModel, GateKind::kNoDecay, GateKind::kNearOne,
                                 GateKind::kBlackout, GateKind::kStrong};
  constexpr int32_t kHeads[][2] = {{1, 1}, {2, 4}, {1, 3}, {2, 2}};
  constexpr int32_t kDims[][2] = {{128, 128}, {16, 48}, {40, 24}, {5, 3}, {512, 33}};
  const test::TestStepOptions options{.padded_rows = 16,
                                      .checkpoints = {{.row = 0, .slot = 40, .position = 64},
                                                      {.row = 4, .slot = 41, .position = 128},
                                                      {.row = 4, .slot = 42, .position = 192}}};
  for (const auto& choice : test::pairwise_choices({3, 3, 3, 5, 4, 5, 2, 3})) {
    GpuGdnShape shape;
    shape.dtype = kDTypes[choice[0]];
    shape.state_dtype = choice[1] == 2 ? DType::kBF16 : DType::kF32;
    shape.gate_format = static_cast<GateFormat>(choice[2]);
    shape.gates = kGates[choice[3]];
    shape.heads.num_k_heads = kHeads[choice[4]][0];
    shape.heads.num_v_heads = kHeads[choice[4]][1];
    shape.heads.k_dim = kDims[choice[5]][0];
    shape.heads.v_dim = kDims[choice[5]][1];
    shape.head_major = choice[6] == 1;
    shape.stride_padding = choice[6] == 1 ? 3 : 0;
    shape.slot_padding = 16 * choice[6];
    shape.max_window = 16;
    const auto set = static_cast<RowSet>(choice[7]);
    const double tolerance = shape.dtype == DType::kF32 ? 2e-5 : 5e-3;
    EXPECT_EQ(run(shape, mixed_rows(), options, set, tolerance), "")
        << attention::row_set_name(set);
  }
}

TEST(GdnPlainGpu, SaysWhatItDoesNotTake) {
  GpuGdnProblem problem({}, {{.query_len = 5}});
  DeltaRuleParams params = problem.params();
  params.shape.k_dim = 513;
  EXPECT_EQ(prepare_plain_delta_rule(params, RowSet::kAll).status().code(),
            StatusCode::kUnsupported);
  params = problem.params();
  params.dtype = DType::kI32;
  EXPECT_EQ(prepare_plain_delta_rule(params, RowSet::kAll).status().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace headrace::gdn
