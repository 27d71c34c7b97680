// SPDX-License-Identifier: Apache-2.0
// S ← αS; d = β(v − S k); S ← S + d kᵀ; o = S q for each token of a row in turn.
//
// Grid (V / 4, value head, row), a warp for each row of S: lane l holds its elements l, l + 32, …
// in registers from the initial slot to the final one. Rows of S do not meet, so no warp waits for
// another. A second kernel writes the pending windows of verify rows, which every warp of a row
// reads in the first one.
#include "gdn/cuda/plain.h"

#include "gdn/gates.h"
#include "gdn/row_state.h"
#include "tensor/cuda/element.cuh"
#include "tensor/cuda/launch.h"

namespace headrace::gdn {
namespace {

using metadata::RowKind;
using metadata::StepView;

constexpr int32_t kWarps = 4;
constexpr int32_t kLaneElements = 16;
constexpr int32_t kMaxKDim = 32 * kLaneElements;
constexpr int32_t kStoreThreads = 256;

__device__ bool is_of(RowSet rows, RowKind kind) {
  if (kind == RowKind::kPadding) return false;
  return rows == RowSet::kAll || (rows == RowSet::kPrefill) == (kind == RowKind::kPrefill);
}

__device__ float warp_sum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
  return x;
}

// A warp's row of S. The callers' `at` counts elements to the first of K.
class StateRow {
 public:
  __device__ explicit StateRow(int32_t k_dim) : k_dim_(k_dim) {}

  __device__ void load(const void* data, DType dtype, int64_t at) {
    each([&](int32_t i, float& s) {
      s = data == nullptr ? 0.0f : load_element(data, dtype, at + i);
    });
  }
  __device__ void store(void* data, DType dtype, int64_t at) {
    each([&](int32_t i, float& s) { store_element(data, dtype, at + i, s); });
  }
  __device__ void advance(const void* keys, DType dtype, int64_t at, float v, float log_decay,
                          float beta) {
    const float alpha = expf(log_decay);
    float key[kLaneElements];
    float sum = 0.0f;
    each([&](int32_t i, float& s, int n) {
      key[n] = load_element(keys, dtype, at + i);
      s *= alpha;
      sum += s * key[n];
    });
    const float d = beta * (v - warp_sum(sum));
    each([&](int32_t, float& s, int n) { s += d * key[n]; });
  }
  __device__ float times(const void* queries, DType dtype, int64_t at) {
    float sum = 0.0f;
    each([&](int32_t i, float& s) { sum += s * load_element(queries, dtype, at + i); });
    return warp_sum(sum);
  }

 private:
  template <typename F>
  __device__ void each(F&& f) {
#pragma unroll
    for (int n = 0; n < kLaneElements; ++n) {
      const int32_t i = static_cast<int32_t>(threadIdx.x % 32) + 32 * n;
      if (i >= k_dim_) continue;
      if constexpr (std::is_invocable_v<F, int32_t, float&, int>) {
        f(i, s_[n], n);
      } else {
        f(i, s_[n]);
      }
    }
  }

  const int32_t k_dim_;
  float s_[kLaneElements];
};

__global__ void delta_rule_kernel(PlainDeltaRule launch) {
  const DeltaRuleParams& params = launch.params;
  const StepView& step = params.step;
  const GdnShape& shape = params.shape;
  const auto row = static_cast<int32_t>(blockIdx.z);
  const auto head = static_cast<int32_t>(blockIdx.y);
  const auto r = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (!is_of(launch.rows, step.kind[row]) || r >= shape.v_dim) return;
  const int32_t k_head = head / (shape.num_v_heads / shape.num_k_heads);
  const RowState state = row_state(step, params.slots, row);
  const DType state_dtype = params.slots.state_dtype;
  const int64_t at = state_head_offset(shape, head) + int64_t{r} * shape.k_dim;
  StateRow s(shape.k_dim);

  const float* initial = slot_data(params.slots, state.initial_slot);
  s.load(state.initial_slot == metadata::kNullSlot ? nullptr : initial + launch.layout.state,
         state_dtype, at);
  const DType window = params.slots.window_dtype;
  for (int64_t t = 0; t < state.num_replayed; ++t) {
    const int64_t gate = t * shape.num_v_heads + head;
    s.advance(initial + launch.layout.pending_k, window,
              t * shape.key_dim() + int64_t{k_head} * shape.k_dim,
              load_element(initial + launch.layout.pending_v, window,
                           t * shape.value_dim() + int64_t{head} * shape.v_dim + r),
              initial[launch.layout.pending_g + gate], initial[launch.layout.pending_beta + gate]);
  }

  const auto keep = [&](int32_t slot) {
    if (slot == metadata::kNullSlot) return;
    s.store(slot_data(params.slots, slot) + launch.layout.state, state_dtype, at);
  };
  if (state.is_verify) keep(state.final_slot);
  for (int64_t t = 0; t < state.query_len; ++t) {
    const int64_t token = state.first_token + t;
    const int64_t gate = token * shape.num_v_heads + head;
    s.advance(params.k, params.dtype, token * params.k_stride.token + k_head * params.k_stride.head,
              load_element(params.v, params.dtype,
                           token * params.v_stride.token + head * params.v_stride.head + r),
              decode_gate(params.gate[gate], params.gate_format), params.beta[gate]);
    const float o = s.times(params.q, params.dtype,
                            token * params.q_stride.token + k_head * params.q_stride.head);
    if (threadIdx.x % 32 == 0) {
      store_element(params.out, params.dtype,
                    token * params.out_stride + int64_t{head} * shape.v_dim + r, o);
    }
    const int64_t position = state.context_len + t + 1;
    for_each_checkpoint(step, row, position - 1, position,
                        [&](int64_t, int32_t slot) { keep(slot); });
  }
  if (!state.is_verify) keep(state.final_slot);
}

// Block (token of the window, row).
__global__ void store_pending_kernel(PlainDeltaRule launch) {
  const DeltaRuleParams& params = launch.params;
  const StepView& step = params.step;
  const GdnShape& shape = params.shape;
  const auto row = static_cast<int32_t>(blockIdx.y);
  const int64_t t = blockIdx.x;
  if (step.kind[row] != RowKind::kVerify) return;
  const RowState state = row_state(step, params.slots, row);
  if (t >= state.query_len || state.final_slot == metadata::kNullSlot) return;
  const int64_t token = state.first_token + t;
  float* slot = slot_data(params.slots, state.final_slot);
  const DType window = params.slots.window_dtype;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < shape.key_dim(); i += kStoreThreads) {
    const int64_t from = token * params.k_stride.token + i / shape.k_dim * params.k_stride.head;
    store_element(slot + launch.layout.pending_k, window, t * shape.key_dim() + i,
                  load_element(params.k, params.dtype, from + i % shape.k_dim));
  }
  for (int32_t i = thread; i < shape.value_dim(); i += kStoreThreads) {
    const int64_t from = token * params.v_stride.token + i / shape.v_dim * params.v_stride.head;
    store_element(slot + launch.layout.pending_v, window, t * shape.value_dim() + i,
                  load_element(params.v, params.dtype, from + i % shape.v_dim));
  }
  for (int32_t h = thread; h < shape.num_v_heads; h += kStoreThreads) {
    const int64_t from = token * shape.num_v_heads + h;
    const int64_t to = t * shape.num_v_heads + h;
    slot[launch.layout.pending_g + to] = decode_gate(params.gate[from], params.gate_format);
    slot[launch.layout.pending_beta + to] = params.beta[from];
  }
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace

std::string to_string(const PlainDeltaRule& launch) {
  const DeltaRuleParams& params = launch.params;
  return std::string("plain delta rule ") + dtype_name(params.dtype) + ", state " +
         dtype_name(params.slots.state_dtype) + ", K " + std::to_string(params.shape.k_dim) +
         ", V " + std::to_string(params.shape.v_dim) + ", " + attention::row_set_name(launch.rows);
}

Result<PlainDeltaRule> prepare_plain_delta_rule(const DeltaRuleParams& params, RowSet rows) {
  if (params.shape.k_dim > kMaxKDim) {
    return unsupported("delta rule with K " + std::to_string(params.shape.k_dim) + ", above " +
                       std::to_string(kMaxKDim));
  }
  const SlotPool& slots = params.slots;
  if (!is_float(params.dtype) || !is_float(slots.state_dtype) || !is_float(slots.window_dtype)) {
    return unsupported(std::string("delta rule of ") + dtype_name(params.dtype) + ", state " +
                       dtype_name(slots.state_dtype) + ", window " +
                       dtype_name(slots.window_dtype) + ": fp32, bf16 and fp16 there are");
  }
  return PlainDeltaRule{.params = params, .layout = slot_layout(params.shape, slots), .rows = rows};
}

Status launch_plain_delta_rule(cudaStream_t stream, const PlainDeltaRule& launch) {
  const GdnShape& shape = launch.params.shape;
  const auto max_rows = static_cast<uint32_t>(launch.params.step.limits.max_rows);
  const dim3 grid(static_cast<uint32_t>(shape.v_dim + kWarps - 1) / kWarps,
                  static_cast<uint32_t>(shape.num_v_heads), max_rows);
  HEADRACE_RETURN_IF_ERROR(launch_kernel(stream, {.grid = grid, .block = dim3(32 * kWarps)},
                                         "launch of the plain delta rule", delta_rule_kernel,
                                         launch));
  if (launch.rows == RowSet::kPrefill || launch.params.slots.max_window == 0) return {};
  return launch_kernel(
      stream, {.grid = dim3(metadata::kMaxVerifyTokens, max_rows), .block = dim3(kStoreThreads)},
      "launch of the pending windows", store_pending_kernel, launch);
}

}  // namespace headrace::gdn
