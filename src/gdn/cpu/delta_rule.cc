// SPDX-License-Identifier: Apache-2.0
// Driver of the delta rule. Rows of S do not depend on each other, so a piece of work is one row of
// the step, one value head and kStateRows rows of S: it loads them, replays what was accepted, runs
// the tokens and stores what is to be kept. In-place slots are read and written by the same piece.
// Prefill rows go chunk by chunk; what a chunk's tokens say without S is made before, once for all
// pieces.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gdn/cpu/chunk.h"
#include "gdn/cpu/parts.h"
#include "gdn/gates.h"
#include "gdn/row_state.h"
#include "gdn/slot_layout.h"
#include "metadata/arena.h"

namespace headrace::gdn {
namespace {

constexpr int32_t kTokenBlock = 64;
// Shorter chunks go step by step, which is then the cheaper way. Whether it is depends on the
// chunk alone, so a row that is cut at chunk edges is computed as the uncut one.
constexpr int32_t kMinChunk = 24;

// [chunk, Hv]
ChunkScores& scores_of(const DeltaRuleParams& params, int32_t chunk, int32_t v_head) {
  auto* scores = reinterpret_cast<ChunkScores*>(params.workspace);
  return scores[int64_t{chunk} * params.shape.num_v_heads + v_head];
}

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

  void store(int32_t slot) {
    if (slot == metadata::kNullSlot) return;
    transpose(false);
    std::memcpy(state_in(slot), state_, state_bytes());
  }

  // Runs `steps` (all but alpha and beta set). Gates and β have stride Hv.
  void run_steps(DeltaSteps steps, const float* gate, GateFormat format, const float* beta) {
    float alphas[kTokenBlock];
    float betas[kTokenBlock];
    HEADRACE_CHECK(steps.num_tokens <= kTokenBlock);
    for (int32_t t = 0; t < steps.num_tokens; ++t) {
      alphas[t] = std::exp(decode_gate(gate[int64_t{t} * shape_.num_v_heads], format));
      betas[t] = beta[int64_t{t} * shape_.num_v_heads];
    }
    steps.alpha = alphas;
    steps.beta = betas;
    kernels_.delta_steps(state_, num_rows_, shape_.k_dim, steps);
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
    run_steps(steps, slot + layout_.pending_g + v_head_, GateFormat::kLog,
              slot + layout_.pending_beta + v_head_);
  }

  void run_tokens() {
    if (params_.step.kind[row_] != metadata::RowKind::kPrefill) {
      step_by_step(row_state_.first_token, row_state_.query_len);
      return;
    }
    for (int32_t c = params_.step.chunk_start[row_]; c < params_.step.chunk_start[row_ + 1]; ++c) {
      const int64_t token = params_.step.chunk_token[c];
      const int32_t n = params_.step.chunk_len[c];
      if (n < kMinChunk) {
        step_by_step(token, n);
      } else {
        advance_chunk(c, token, n);
      }
    }
  }

  // Keeps S, now after the row's tokens up to and without `token`, where the step wants it.
  void store_checkpoints(int64_t token) {
    const int64_t position = row_state_.context_len + token - row_state_.first_token;
    for_each_checkpoint(params_.step, row_, position - 1, position,
                        [&](int64_t, int32_t slot) { store(slot); });
  }

  const float* keys(int64_t token) const {
    return static_cast<const float*>(params_.k) + k_head_ * params_.k_stride.head +
           token * params_.k_stride.token;
  }
  const float* queries(int64_t token) const {
    return static_cast<const float*>(params_.q) + k_head_ * params_.q_stride.head +
           token * params_.q_stride.token;
  }
  const float* values(int64_t token) const {
    return static_cast<const float*>(params_.v) + v_head_ * params_.v_stride.head +
           token * params_.v_stride.token + first_row_;
  }
  float* outputs(int64_t token) const {
    return static_cast<float*>(params_.out) + token * params_.out_stride +
           int64_t{v_head_} * shape_.v_dim + first_row_;
  }

  void step_by_step(int64_t token, int32_t num_tokens) {
    transpose(false);
    const int64_t gate = token * shape_.num_v_heads + v_head_;
    run_steps({.num_tokens = num_tokens,
               .k = keys(token),
               .k_stride = shape_.k_dim,
               .v = values(token),
               .v_stride = shape_.v_dim,
               .q = queries(token),
               .q_stride = shape_.k_dim,
               .out = outputs(token),
               .out_stride = params_.out_stride},
              params_.gate + gate, params_.gate_format, params_.beta + gate);
    store_checkpoints(token + num_tokens);
  }

  void advance_chunk(int32_t chunk, int64_t token, int32_t n) {
    transpose(true);
    chunk_advance(kernels_, scores_of(params_, chunk, v_head_), queries(token), keys(token), n,
                  shape_.k_dim, values(token), shape_.v_dim, num_rows_, transposed_, outputs(token),
                  params_.out_stride);
    store_checkpoints(token + n);
  }

  // Brings S into the form that chunks (true) or steps and slots (false) work on.
  void transpose(bool for_chunks) {
    if (is_transposed_ == for_chunks) return;
    is_transposed_ = for_chunks;
    if (!for_chunks) {
      for (int32_t r = 0; r < num_rows_; ++r) {
        for (int32_t i = 0; i < shape_.k_dim; ++i) {
          state_[r * shape_.k_dim + i] = transposed_[i * kStateRows + r];
        }
      }
      return;
    }
    for (int32_t i = 0; i < shape_.k_dim; ++i) {
      for (int32_t r = 0; r < num_rows_; ++r) {
        transposed_[i * kStateRows + r] = state_[r * shape_.k_dim + i];
      }
      for (int32_t r = num_rows_; r < kStateRows; ++r) transposed_[i * kStateRows + r] = 0.0f;
    }
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
  bool is_transposed_ = false;                           // which of the two holds S
  alignas(64) float state_[kStateRows * kMaxKDim];       // [rows, K]
  alignas(64) float transposed_[kMaxKDim * kStateRows];  // [K, kStateRows]
};

// What the tokens of one chunk say without S, for the value heads of one key head.
void prepare_chunk(const CpuKernels& kernels, const DeltaRuleParams& params, int32_t chunk,
                   int32_t k_head) {
  const GdnShape& shape = params.shape;
  const int64_t token = params.step.chunk_token[chunk];
  const int32_t n = params.step.chunk_len[chunk];
  if (n < kMinChunk) return;
  const float* q = static_cast<const float*>(params.q) + k_head * params.q_stride.head +
                   token * params.q_stride.token;
  const float* k = static_cast<const float*>(params.k) + k_head * params.k_stride.head +
                   token * params.k_stride.token;
  ChunkProducts products;
  chunk_products(kernels, q, k, n, shape.k_dim, products);
  const int32_t group = shape.num_v_heads / shape.num_k_heads;
  for (int32_t h = k_head * group; h < (k_head + 1) * group; ++h) {
    const int64_t gate = token * shape.num_v_heads + h;
    chunk_scores(kernels, products, params.gate + gate, params.gate_format, params.beta + gate,
                 shape.num_v_heads, n, scores_of(params, chunk, h));
  }
}

// The tokens of a verify row become the pending window of its final slot.
void store_pending(const DeltaRuleParams& params, int32_t row) {
  const GdnShape& shape = params.shape;
  const RowState state = row_state(params.step, params.slots, row);
  if (!state.is_verify || state.final_slot == metadata::kNullSlot) return;
  const SlotLayout layout = slot_layout(shape, params.slots.max_window);
  float* slot = slot_data(params.slots, state.final_slot);
  const auto* const k = static_cast<const float*>(params.k);
  const auto* const v = static_cast<const float*>(params.v);
  for (int64_t t = 0; t < state.query_len; ++t) {
    const int64_t token = state.first_token + t;
    for (int32_t h = 0; h < shape.num_k_heads; ++h) {
      std::copy_n(k + h * params.k_stride.head + token * params.k_stride.token, shape.k_dim,
                  slot + layout.pending_k + t * shape.key_dim() + int64_t{h} * shape.k_dim);
    }
    for (int32_t h = 0; h < shape.num_v_heads; ++h) {
      std::copy_n(v + h * params.v_stride.head + token * params.v_stride.token, shape.v_dim,
                  slot + layout.pending_v + t * shape.value_dim() + int64_t{h} * shape.v_dim);
      const int64_t from = token * shape.num_v_heads + h;
      const int64_t to = t * shape.num_v_heads + h;
      slot[layout.pending_g + to] = decode_gate(params.gate[from], params.gate_format);
      slot[layout.pending_beta + to] = params.beta[from];
    }
  }
}

}  // namespace

int64_t delta_rule_workspace_floats(const GdnShape& shape, const metadata::Limits& limits) {
  static_assert(sizeof(ChunkScores) % sizeof(float) == 0);
  return int64_t{metadata::max_chunks(limits)} * shape.num_v_heads *
         static_cast<int64_t>(sizeof(ChunkScores) / sizeof(float));
}

void delta_rule(ThreadPool& pool, const CpuKernels& kernels, const DeltaRuleParams& params) {
  const GdnShape& shape = params.shape;
  const metadata::Counts& counts = *params.step.counts;
  if (counts.num_tokens == 0) return;
  HEADRACE_CHECK(params.q_stride.token == shape.k_dim && params.k_stride.token == shape.k_dim &&
                     params.v_stride.token == shape.v_dim,
                 "on the CPU a head's tokens follow each other without gaps");
  pool.parallel_for(int64_t{counts.num_chunks} * shape.num_k_heads, 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        prepare_chunk(kernels, params, static_cast<int32_t>(i / shape.num_k_heads),
                                      static_cast<int32_t>(i % shape.num_k_heads));
                      }
                    });
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
