// SPDX-License-Identifier: Apache-2.0
// Driver of the delta rule. Rows of S do not depend on each other, so a piece of work is one row of
// the step, one value head and kStateRows rows of S: it loads them, replays what was accepted, runs
// the tokens and stores what is to be kept. In-place slots are read and written by the same piece.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gdn/cpu/parts.h"
#include "gdn/gates.h"
#include "gdn/row_state.h"
#include "gdn/slot_layout.h"

namespace headrace::gdn {
namespace {

constexpr int32_t kTokenBlock = 64;

class DeltaPiece {
 public:
  DeltaPiece(const CpuKernels& kernels, const DeltaRuleParams& params, int32_t row, int32_t v_head,
             int32_t first_row)
      : kernels_(kernels),
        params_(params),
        shape_(params.shape),
        layout_(slot_layout(params.shape, params.slots.max_window)),
        row_(row),
        v_head_(v_head),
        k_head_(v_head / (params.shape.num_v_heads / params.shape.num_k_heads)),
        first_row_(first_row),
        num_rows_(std::min(kStateRows, params.shape.v_dim - first_row)),
        row_state_(row_state(params.step, params.slots, row)) {}

  void run() {
    if (row_state_.query_len == 0) return;
    load();
    replay();
    if (row_state_.is_verify) store(row_state_.final_slot);
    run_tokens();
    if (!row_state_.is_verify) store(row_state_.final_slot);
  }

 private:
  size_t state_bytes() const {
    return sizeof(float) * static_cast<size_t>(num_rows_) * static_cast<size_t>(shape_.k_dim);
  }
  float* state_in(int32_t slot) const {
    return slot_data(params_.slots, slot) + layout_.state + state_head_offset(shape_, v_head_) +
           int64_t{first_row_} * shape_.k_dim;
  }

  void load() {
    if (row_state_.initial_slot == metadata::kNullSlot) {
      std::memset(state_, 0, state_bytes());
    } else {
      std::memcpy(state_, state_in(row_state_.initial_slot), state_bytes());
    }
  }

  void store(int32_t slot) const {
    if (slot != metadata::kNullSlot) std::memcpy(state_in(slot), state_, state_bytes());
  }

  // Runs `steps` (all but alpha and beta set) from `position` on, and keeps the state where the
  // step wants checkpoints. Gates come from log decays and β with stride Hv.
  void run_steps(DeltaSteps steps, int64_t position, const float* gate, GateFormat format,
                 const float* beta) {
    float alphas[kTokenBlock];
    float betas[kTokenBlock];
    steps.alpha = alphas;
    steps.beta = betas;
    const int64_t end = position + steps.num_tokens;
    store_checkpoint(position);
    while (position < end) {
      int64_t stop = std::min(end, position + kTokenBlock);
      for_each_checkpoint(params_.step, row_, position + 1, stop,
                          [&](int64_t at, int32_t) { stop = std::min(stop, at); });
      const auto n = static_cast<int32_t>(stop - position);
      for (int32_t t = 0; t < n; ++t) {
        alphas[t] = std::exp(decode_gate(gate[int64_t{t} * shape_.num_v_heads], format));
        betas[t] = beta[int64_t{t} * shape_.num_v_heads];
      }
      steps.num_tokens = n;
      kernels_.delta_steps(state_, num_rows_, shape_.k_dim, steps);
      steps.k += n * steps.k_stride;
      steps.v += n * steps.v_stride;
      if (steps.q != nullptr) {
        steps.q += n * steps.q_stride;
        steps.out += n * steps.out_stride;
      }
      gate += int64_t{n} * shape_.num_v_heads;
      beta += int64_t{n} * shape_.num_v_heads;
      position = stop;
      store_checkpoint(position);
    }
  }

  void store_checkpoint(int64_t position) const {
    for_each_checkpoint(params_.step, row_, position, position,
                        [&](int64_t, int32_t slot) { store(slot); });
  }

  void replay() {
    if (row_state_.num_replayed == 0) return;
    const float* slot = slot_data(params_.slots, row_state_.initial_slot);
    DeltaSteps steps;
    steps.num_tokens = row_state_.num_replayed;
    steps.k = slot + layout_.pending_k + int64_t{k_head_} * shape_.k_dim;
    steps.k_stride = shape_.key_dim();
    steps.v = slot + layout_.pending_v + int64_t{v_head_} * shape_.v_dim + first_row_;
    steps.v_stride = shape_.value_dim();
    run_steps(steps, int64_t{row_state_.context_len} - row_state_.num_replayed,
              slot + layout_.pending_g + v_head_, GateFormat::kLog,
              slot + layout_.pending_beta + v_head_);
  }

  void run_tokens() {
    const int64_t max_tokens = params_.step.limits.max_tokens;
    const int64_t token = row_state_.first_token;
    DeltaSteps steps;
    steps.num_tokens = row_state_.query_len;
    steps.k = params_.k + (k_head_ * max_tokens + token) * shape_.k_dim;
    steps.k_stride = shape_.k_dim;
    steps.q = params_.q + (k_head_ * max_tokens + token) * shape_.k_dim;
    steps.q_stride = shape_.k_dim;
    steps.v = params_.v + (v_head_ * max_tokens + token) * shape_.v_dim + first_row_;
    steps.v_stride = shape_.v_dim;
    steps.out =
        params_.out + token * params_.out_stride + int64_t{v_head_} * shape_.v_dim + first_row_;
    steps.out_stride = params_.out_stride;
    const int64_t gate = token * shape_.num_v_heads + v_head_;
    run_steps(steps, row_state_.context_len, params_.gate + gate, params_.gate_format,
              params_.beta + gate);
  }

  const CpuKernels& kernels_;
  const DeltaRuleParams& params_;
  const GdnShape& shape_;
  const SlotLayout layout_;
  const int32_t row_;
  const int32_t v_head_;
  const int32_t k_head_;
  const int32_t first_row_;
  const int32_t num_rows_;
  const RowState row_state_;
  alignas(64) float state_[kStateRows * kMaxKDim];
};

// The tokens of a verify row become the pending window of its final slot.
void store_pending(const DeltaRuleParams& params, int32_t row) {
  const GdnShape& shape = params.shape;
  const RowState state = row_state(params.step, params.slots, row);
  if (!state.is_verify || state.final_slot == metadata::kNullSlot) return;
  const SlotLayout layout = slot_layout(shape, params.slots.max_window);
  float* slot = slot_data(params.slots, state.final_slot);
  const int64_t max_tokens = params.step.limits.max_tokens;
  for (int64_t t = 0; t < state.query_len; ++t) {
    const int64_t token = state.first_token + t;
    for (int32_t h = 0; h < shape.num_k_heads; ++h) {
      std::copy_n(params.k + (h * max_tokens + token) * shape.k_dim, shape.k_dim,
                  slot + layout.pending_k + t * shape.key_dim() + int64_t{h} * shape.k_dim);
    }
    for (int32_t h = 0; h < shape.num_v_heads; ++h) {
      std::copy_n(params.v + (h * max_tokens + token) * shape.v_dim, shape.v_dim,
                  slot + layout.pending_v + t * shape.value_dim() + int64_t{h} * shape.v_dim);
      const int64_t from = token * shape.num_v_heads + h;
      const int64_t to = t * shape.num_v_heads + h;
      slot[layout.pending_g + to] = decode_gate(params.gate[from], params.gate_format);
      slot[layout.pending_beta + to] = params.beta[from];
    }
  }
}

}  // namespace

void delta_rule(ThreadPool& pool, const CpuKernels& kernels, const DeltaRuleParams& params) {
  const GdnShape& shape = params.shape;
  const metadata::Counts& counts = *params.step.counts;
  if (counts.num_tokens == 0) return;
  const int32_t tiles = (shape.v_dim + kStateRows - 1) / kStateRows;
  const int64_t pieces_per_row = int64_t{shape.num_v_heads} * tiles;
  // A token of a piece takes about half a microsecond: ranges of some 10 µs.
  const int64_t grain = 1 + 16 / (counts.num_tokens / counts.num_rows + 1);
  pool.parallel_for(counts.num_rows * pieces_per_row, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const auto row = static_cast<int32_t>(piece / pieces_per_row);
      const auto in_row = static_cast<int32_t>(piece % pieces_per_row);
      DeltaPiece(kernels, params, row, in_row / tiles, in_row % tiles * kStateRows).run();
    }
  });
  // Only now: every piece of a row reads the pending window that this overwrites.
  if (counts.num_verify_rows == 0) return;
  pool.parallel_for(counts.num_verify_rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) store_pending(params, params.step.verify_rows[i]);
  });
}

}  // namespace headrace::gdn
