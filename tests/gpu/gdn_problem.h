// SPDX-License-Identifier: Apache-2.0
// What the GPU's tests of the delta rule share: a step with known inputs and states on the device,
// NaN everywhere else (slots that no row starts from, the rest of those, strides, what lies past
// the last token, outputs), and the answer in fp64, token by token, by a kernel that shares nothing
// with those under test.
//
//   GpuGdnProblem problem(shape, {{.query_len = 130}, {.query_len = 1, .context_len = 9}});
//   prepare_delta_rule(problem.params(), …); launch_delta_rule(…);
//   EXPECT_EQ(problem.check(RowSet::kAll), "");
//
// An input depends on the row's index, the token's position in its sequence and the head, so a row
// that is cut and resumed has the tokens of the uncut one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/cuda/row_set.h"
#include "gdn/parts_params.h"
#include "gdn/slot_layout.h"
#include "metadata/arena.h"
#include "tensor/buffer.h"
#include "tensor/cuda/cuda_stream.h"
#include "tests/support/step_builder.h"

namespace headrace::gdn {

using attention::RowSet;

enum class GateKind {
  kModel,     // g = −A · softplus(a + dt_bias), A up to 16; β = sigmoid
  kNoDecay,   // g = 0 (α = 1)
  kNearOne,   // α and β in [0.99, 1)
  kBlackout,  // as kModel, but runs of tokens with g = −inf followed by g ≈ 0 inside of chunks
  kStrong,    // g between −30 and −300: every token forgets all before it
};
const char* gate_kind_name(GateKind kind);

struct GpuGdnShape {
  GdnShape heads{.num_k_heads = 2, .num_v_heads = 4, .k_dim = 128, .v_dim = 128};
  DType dtype = DType::kBF16;
  DType state_dtype = DType::kF32;
  GateFormat gate_format = GateFormat::kLog;
  GateKind gates = GateKind::kModel;
  float key_bias = 0.0f;  // what all keys of a head share, against 1 for what they do not
  bool head_major = false;
  int32_t stride_padding = 0;  // elements added to the token strides of q, k, v and out
  int64_t slot_padding = 0;    // words added to the stride from slot to slot
  int32_t max_window = 0;
  int32_t num_slots = 0;  // 0: as many as the rows want
  uint64_t seed = 1;
};
std::string to_string(const GpuGdnShape& shape);

class GpuGdnProblem {
 public:
  GpuGdnProblem(const GpuGdnShape& shape, const std::vector<test::TestRow>& rows,
                const test::TestStepOptions& options = {});

  // Other rows in the same buffers, within the limits: as a replay of a captured graph finds them.
  // With `keep_slots` states are what the steps so far have left, else random.
  void set_rows(const std::vector<test::TestRow>& rows,
                const std::vector<metadata::Checkpoint>& checkpoints = {}, bool keep_slots = false);
  // Slots as they were before the step, NaN in out: for another launch of the same step.
  void reset();

  DeltaRuleParams& params() { return params_; }
  CudaStream& stream() { return stream_; }

  // Compares what the stream has computed. Empty when all is well, else what is wrong. For each row
  // ‖error‖ ≤ tolerance · ‖exact‖ over its outputs and over each of its states, twice that over
  // those of one head, and no token far off; pending windows of verify rows; all that is not
  // written by these rows is as it was, bit for bit. `state_tolerance` 0: the same.
  std::string check(RowSet rows = RowSet::kAll, double tolerance = 5e-3,
                    double state_tolerance = 0);
  // The largest relative error of a row that check() saw last.
  double worst_out() const { return worst_out_; }
  double worst_state() const { return worst_state_; }

  // A sum over the bits of out and of all slots.
  uint64_t digest();
  std::vector<float> outputs();            // [T, Hv · V]
  std::vector<float> state(int32_t slot);  // [Hv, V, K]

 private:
  void upload(bool keep_slots);
  std::string check_pending();
  int32_t num_state_sets() const;  // final states of the rows and states at checkpoints

  GpuGdnShape shape_;
  test::TestStep host_;
  std::vector<metadata::Checkpoint> checkpoints_;
  metadata::StepArena arena_;
  CudaStream stream_;
  SlotLayout layout_;
  Buffer q_, k_, v_, gate_, beta_, out_, pool_, before_;
  Buffer exact_out_, exact_states_, sums_, flags_, digest_;
  DeltaRuleParams params_;
  double worst_out_ = 0;
  double worst_state_ = 0;
};

}  // namespace headrace::gdn
