// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gdn_problem_kernels.h"

#include "gdn/gates.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/element.cuh"
#include "tests/gpu/attention_problem.h"

namespace headrace::gdn {
namespace {

using metadata::RowKind;
using metadata::StepView;

void check_launch() { attention::check_status(cuda_status(cudaGetLastError(), "launch")); }

__device__ uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
__device__ uint64_t bits_of(uint64_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return mix(mix(mix(mix(kind * 1000003 + a) + b) + c) + d);
}
// In (0, 1).
__device__ float uniform(uint64_t bits) {
  return (static_cast<float>(bits >> 41) + 0.5f) * 0x1p-23f;
}
__device__ float normal(uint64_t bits) {
  const float angle = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-24f;
  return sqrtf(-2.0f * logf((static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f)) *
         cospif(2.0f * angle);
}

// The kinds of random numbers; xor'ed with the seed.
enum : uint64_t { kQ = 1, kK, kV, kA, kB, kRate, kBias, kState, kShared, kExtra };

struct Gate {
  float log_decay;
  float beta;
};
__device__ Gate random_gate(const GpuGdnShape& shape, int64_t row, int64_t position, int64_t head) {
  const uint64_t seed = shape.seed << 8;
  const float x = normal(bits_of(seed ^ kA, row, position, head, 0));
  const uint64_t bits = bits_of(seed ^ kExtra, row, position, head, 0);
  Gate gate;
  const float rate =
      expf(logf(0.01f) + logf(1600.0f) * uniform(bits_of(seed ^ kRate, head, 0, 0, 0)));
  gate.log_decay = -rate * softplus(x - 3.0f + normal(bits_of(seed ^ kBias, head, 0, 0, 0)));
  gate.beta = sigmoid(normal(bits_of(seed ^ kB, row, position, head, 0)));
  switch (shape.gates) {
    case GateKind::kModel:
      break;
    case GateKind::kNoDecay:
      gate.log_decay = 0.0f;
      break;
    case GateKind::kNearOne:
      gate.log_decay = logf(1.0f - 0.01f * uniform(bits));
      gate.beta = 1.0f - 0.01f * uniform(mix(bits));
      break;
    case GateKind::kBlackout: {
      // Positions that differ from chunk to chunk.
      const int64_t in_period = (position + 7 * (position / 64) + head) % 64;
      if (in_period == 11 || (in_period >= 37 && in_period < 41)) gate.log_decay = -INFINITY;
      if (in_period > 11 && in_period < 37) gate.log_decay = in_period % 2 == 0 ? 0.0f : -1e-5f;
      break;
    }
    case GateKind::kStrong:
      gate.log_decay = -30.0f - 270.0f * uniform(bits);
      break;
  }
  return gate;
}

// Block (token), one warp a head in turn.
__global__ void fill_tokens_kernel(GpuGdnShape shape, DeltaRuleParams params) {
  const StepView& step = params.step;
  const int64_t token = blockIdx.x;
  if (token >= step.counts->num_tokens) return;
  const int64_t row = step.token_row[token];
  const int64_t position = step.token_position[token];
  const uint64_t seed = shape.seed << 8;
  const int32_t lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto unit_vector = [&](uint64_t kind, int32_t head, float bias, float scale, void* to,
                               const HeadStride& stride) {
    const auto element = [&](int32_t i) {
      return normal(bits_of(seed ^ kind, row, position, head, i)) +
             bias * normal(bits_of(seed ^ kShared, head, i, 0, 0));
    };
    float square = 0.0f;
    for (int32_t i = lane; i < shape.heads.k_dim; i += 32) square += element(i) * element(i);
    for (int offset = 16; offset > 0; offset /= 2) {
      square += __shfl_xor_sync(0xffffffff, square, offset);
    }
    for (int32_t i = lane; i < shape.heads.k_dim; i += 32) {
      store_element(to, params.dtype, token * stride.token + head * stride.head + i,
                    element(i) * rsqrtf(square) * scale);
    }
  };
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto num_warps = static_cast<int32_t>(blockDim.x / 32);
  for (int32_t h = warp; h < shape.heads.num_k_heads; h += num_warps) {
    unit_vector(kQ, h, 0.0f, rsqrtf(static_cast<float>(shape.heads.k_dim)),
                const_cast<void*>(params.q), params.q_stride);
    unit_vector(kK, h, shape.key_bias, 1.0f, const_cast<void*>(params.k), params.k_stride);
  }
  for (int32_t h = warp; h < shape.heads.num_v_heads; h += num_warps) {
    for (int32_t i = lane; i < shape.heads.v_dim; i += 32) {
      store_element(const_cast<void*>(params.v), params.dtype,
                    token * params.v_stride.token + h * params.v_stride.head + i,
                    normal(bits_of(seed ^ kV, row, position, h, i)));
    }
    if (lane == 0) {
      const Gate gate = random_gate(shape, row, position, h);
      const int64_t at = token * shape.heads.num_v_heads + h;
      const_cast<float*>(params.gate)[at] = encode_gate(gate.log_decay, params.gate_format);
      const_cast<float*>(params.beta)[at] = gate.beta;
    }
  }
}

// Block (x, row).
__global__ void fill_slots_kernel(GpuGdnShape shape, DeltaRuleParams params, SlotLayout layout) {
  const auto row = static_cast<int64_t>(blockIdx.y);
  const int32_t slot = params.step.initial_slot[row];
  if (params.step.has_initial_state[row] == 0) return;
  float* data = slot_data(params.slots, slot);
  const GdnShape& heads = shape.heads;
  const uint64_t seed = shape.seed << 8;
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t num_threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = thread; i < int64_t{heads.value_dim()} * heads.k_dim; i += num_threads) {
    store_element(data + layout.state, params.slots.state_dtype, i,
                  0.3f * normal(bits_of(seed ^ kState, slot, i, 0, 0)));
  }
  // Accepted tokens of an earlier window; their numbers are those of positions far away.
  const int64_t accepted = params.step.num_accepted[row];
  const DType window = params.slots.window_dtype;
  for (int64_t i = thread; i < accepted * heads.key_dim(); i += num_threads) {
    const float element = normal(bits_of(seed ^ kK, row, 1 << 29, i, 1));
    store_element(data + layout.pending_k, window, i,
                  element * rsqrtf(static_cast<float>(heads.k_dim)));
  }
  for (int64_t i = thread; i < accepted * heads.value_dim(); i += num_threads) {
    store_element(data + layout.pending_v, window, i,
                  normal(bits_of(seed ^ kV, row, 1 << 29, i, 1)));
  }
  for (int64_t i = thread; i < accepted * heads.num_v_heads; i += num_threads) {
    const Gate gate =
        random_gate(shape, row, (1 << 29) + i / heads.num_v_heads, i % heads.num_v_heads);
    data[layout.pending_g + i] = fmaxf(gate.log_decay, kMinLogDecay);
    data[layout.pending_beta + i] = gate.beta;
  }
}

__device__ double warp_sum(double x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
  return x;
}

__device__ double exact_alpha(float gate, GateFormat format) {
  if (format == GateFormat::kLinear) return gate;
  return format == GateFormat::kLog2 ? exp2(double{gate}) : exp(double{gate});
}

constexpr int32_t kExactWarps = 4;
constexpr int32_t kMaxLaneElements = 16;  // K up to 512

// Block (rows of S, value head, row): a warp holds one row of S, element i in lane i % 32.
__global__ void exact_kernel(DeltaRuleParams params, SlotLayout layout, double* out,
                             double* states) {
  const StepView& step = params.step;
  const GdnShape& shape = params.shape;
  const auto row = static_cast<int32_t>(blockIdx.z);
  const auto head = static_cast<int32_t>(blockIdx.y);
  const int32_t r = static_cast<int32_t>(blockIdx.x * kExactWarps + threadIdx.x / 32);
  const int32_t lane = static_cast<int32_t>(threadIdx.x % 32);
  if (r >= shape.v_dim || step.kind[row] == RowKind::kPadding) return;
  const int32_t k_head = head / (shape.num_v_heads / shape.num_k_heads);
  const int64_t at = (int64_t{head} * shape.v_dim + r) * shape.k_dim;
  const int64_t state_size = int64_t{shape.value_dim()} * shape.k_dim;
  double s[kMaxLaneElements];

  const auto advance = [&](const void* k, DType dtype, int64_t k_at, double v, double alpha,
                           double beta) {
    double sk = 0.0;
#pragma unroll
    for (int n = 0; n < kMaxLaneElements; ++n) {
      const int32_t i = lane + 32 * n;
      if (i < shape.k_dim) sk += (s[n] *= alpha) * load_element(k, dtype, k_at + i);
    }
    const double d = beta * (v - warp_sum(sk));
#pragma unroll
    for (int n = 0; n < kMaxLaneElements; ++n) {
      const int32_t i = lane + 32 * n;
      if (i < shape.k_dim) s[n] += d * load_element(k, dtype, k_at + i);
    }
  };
  const auto keep = [&](int64_t set) {
    for (int n = 0; n < kMaxLaneElements; ++n) {
      const int32_t i = lane + 32 * n;
      if (i < shape.k_dim) states[set * state_size + at + i] = s[n];
    }
  };

  const float* slot = slot_data(params.slots, step.initial_slot[row]);
  const bool has_state = step.has_initial_state[row] != 0;
#pragma unroll
  for (int n = 0; n < kMaxLaneElements; ++n) {
    const int32_t i = lane + 32 * n;
    s[n] = has_state && i < shape.k_dim
               ? load_element(slot + layout.state, params.slots.state_dtype, at + i)
               : 0.0f;
  }
  const int32_t accepted = has_state ? step.num_accepted[row] : 0;
  for (int64_t t = 0; t < accepted; ++t) {
    const int64_t gate = t * shape.num_v_heads + head;
    advance(slot + layout.pending_k, params.slots.window_dtype,
            t * shape.key_dim() + int64_t{k_head} * shape.k_dim,
            load_element(slot + layout.pending_v, params.slots.window_dtype,
                         t * shape.value_dim() + int64_t{head} * shape.v_dim + r),
            exp(double{slot[layout.pending_g + gate]}), slot[layout.pending_beta + gate]);
  }
  if (step.kind[row] == RowKind::kVerify) keep(row);
  for (int64_t t = 0; t < step.query_len[row]; ++t) {
    const int64_t token = step.query_start_i64[row] + t;
    const int64_t gate = token * shape.num_v_heads + head;
    advance(params.k, params.dtype, token * params.k_stride.token + k_head * params.k_stride.head,
            load_element(params.v, params.dtype,
                         token * params.v_stride.token + head * params.v_stride.head + r),
            exact_alpha(params.gate[gate], params.gate_format), params.beta[gate]);
    double sq = 0.0;
#pragma unroll
    for (int n = 0; n < kMaxLaneElements; ++n) {
      const int32_t i = lane + 32 * n;
      if (i < shape.k_dim) {
        sq +=
            s[n] * load_element(params.q, params.dtype,
                                token * params.q_stride.token + k_head * params.q_stride.head + i);
      }
    }
    sq = warp_sum(sq);
    if (lane == 0) out[token * shape.value_dim() + int64_t{head} * shape.v_dim + r] = sq;
    for (int32_t i = 0; i < step.counts->num_checkpoints; ++i) {
      if (step.checkpoints[i].row == row &&
          step.checkpoints[i].position == step.context_len[row] + t + 1) {
        keep(step.limits.max_rows + i);
      }
    }
  }
  if (step.kind[row] != RowKind::kVerify) keep(row);
}

// A warp: ‖got − exact‖² and ‖exact‖² of `count` elements, in lane 0 added to the sums. NaN counts
// as infinitely wrong.
template <typename Got>
__device__ void add_errors(int32_t count, const double* exact, Got&& got, bool second_pass,
                           double num_vectors, ErrorSums* sums) {
  double error2 = 0.0;
  double exact2 = 0.0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x % 32); i < count; i += 32) {
    const double difference = double{got(i)} - exact[i];
    error2 += difference * difference;
    exact2 += exact[i] * exact[i];
  }
  error2 = warp_sum(error2);
  exact2 = warp_sum(exact2);
  if (!(error2 < INFINITY)) error2 = INFINITY;
  if (threadIdx.x % 32 != 0) return;
  if (!second_pass) {
    atomicAdd(&sums->error2, error2);
    atomicAdd(&sums->exact2, exact2);
    return;
  }
  const double against = fmax(exact2, sums->exact2 / num_vectors);
  const double worst = against > 0.0 ? error2 / against : error2;
  // Not negative, so the bits are in the order of the values.
  atomicMax(reinterpret_cast<unsigned long long*>(&sums->worst_token),
            static_cast<unsigned long long>(__double_as_longlong(worst)));
}

// Block (token, value head / 4), a warp a head.
__global__ void output_errors_kernel(DeltaRuleParams params, const double* exact, bool second_pass,
                                     ErrorSums* sums) {
  const GdnShape& shape = params.shape;
  const int64_t token = blockIdx.x;
  const auto head = static_cast<int32_t>(blockIdx.y * 4 + threadIdx.x / 32);
  if (token >= params.step.counts->num_tokens || head >= shape.num_v_heads) return;
  const int64_t row = params.step.token_row[token];
  const int64_t in_token = int64_t{head} * shape.v_dim;
  add_errors(
      shape.v_dim, exact + token * shape.value_dim() + in_token,
      [&](int32_t i) {
        return load_element(params.out, params.dtype, token * params.out_stride + in_token + i);
      },
      second_pass, params.step.query_len[row], &sums[row * shape.num_v_heads + head]);
}

// Slot and row that state set `set` is of; slot 0: none.
struct StateSet {
  int32_t slot = 0;
  int32_t row = 0;
};
__device__ StateSet state_set(const StepView& step, int32_t set) {
  if (set < step.limits.max_rows) {
    return {step.kind[set] == RowKind::kPadding ? 0 : step.final_slot[set], set};
  }
  const int32_t i = set - step.limits.max_rows;
  if (i >= step.counts->num_checkpoints) return {};
  return {step.checkpoints[i].slot, step.checkpoints[i].row};
}

// Block (row of S / 4, value head, state set), a warp a row of S.
__global__ void state_errors_kernel(DeltaRuleParams params, SlotLayout layout, const double* exact,
                                    bool second_pass, ErrorSums* sums) {
  const GdnShape& shape = params.shape;
  const auto r = static_cast<int32_t>(blockIdx.x * 4 + threadIdx.x / 32);
  const auto head = static_cast<int32_t>(blockIdx.y);
  const auto set = static_cast<int32_t>(blockIdx.z);
  const StateSet from = state_set(params.step, set);
  if (from.slot == 0 || r >= shape.v_dim) return;
  const int64_t at = (int64_t{head} * shape.v_dim + r) * shape.k_dim;
  const float* state = slot_data(params.slots, from.slot) + layout.state;
  add_errors(
      shape.k_dim, exact + set * int64_t{shape.value_dim()} * shape.k_dim + at,
      [&](int32_t i) { return load_element(state, params.slots.state_dtype, at + i); }, second_pass,
      shape.v_dim, &sums[int64_t{set} * shape.num_v_heads + head]);
}

__device__ bool is_of(RowSet rows, RowKind kind) {
  if (kind == RowKind::kPadding) return false;
  return rows == RowSet::kAll || (rows == RowSet::kPrefill) == (kind == RowKind::kPrefill);
}

__global__ void untouched_outputs_kernel(DeltaRuleParams params, RowSet rows, int64_t elements,
                                         Untouched* found) {
  const StepView& step = params.step;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t token = i / params.out_stride;
    if (token < step.counts->num_tokens && i % params.out_stride < params.shape.value_dim() &&
        is_of(rows, step.kind[step.token_row[token]])) {
      continue;
    }
    if (!isnan(load_element(params.out, params.dtype, i))) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&found->outputs), 1ull);
    }
  }
}

// Block (x, slot).
__global__ void untouched_slots_kernel(DeltaRuleParams params, SlotLayout layout, RowSet rows,
                                       const float* before, Untouched* found) {
  const StepView& step = params.step;
  const SlotPool& pool = params.slots;
  const auto slot = static_cast<int32_t>(blockIdx.y);
  __shared__ bool owns_state;
  __shared__ bool owns_pending;
  if (threadIdx.x == 0) {
    owns_state = false;
    owns_pending = false;
    for (int32_t set = 0; slot > 0 && set < step.limits.max_rows + step.counts->num_checkpoints;
         ++set) {
      const StateSet from = state_set(step, set);
      if (from.slot != slot || !is_of(rows, step.kind[from.row])) continue;
      owns_state = true;
      owns_pending = owns_pending || step.kind[from.row] == RowKind::kVerify;
    }
  }
  __syncthreads();
  const int64_t begin = int64_t{slot} * pool.slot_stride;
  const auto* now = reinterpret_cast<const uint32_t*>(pool.data + begin);
  const auto* then = reinterpret_cast<const uint32_t*>(before + begin);
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pool.slot_stride;
       i += int64_t{gridDim.x} * blockDim.x) {
    if (now[i] == then[i]) continue;
    if (owns_state && i >= layout.state && i < layout.pending_conv) continue;
    if (owns_pending && i >= layout.pending_k && i < layout.total) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(&found->words), 1ull);
    found->first_word = begin + i;
  }
}

__global__ void digest_kernel(const uint32_t* words, int64_t count, uint64_t salt, uint64_t* sum) {
  uint64_t own = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    own += mix(mix(salt + static_cast<uint64_t>(i)) + words[i]);
  }
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(own));
}

uint32_t num_state_sets(const DeltaRuleParams& params) {
  return static_cast<uint32_t>(params.step.limits.max_rows + params.step.limits.max_checkpoints);
}

}  // namespace

void fill_tokens(cudaStream_t stream, const GpuGdnShape& shape, const DeltaRuleParams& params) {
  fill_tokens_kernel<<<static_cast<uint32_t>(params.step.limits.max_tokens), 256, 0, stream>>>(
      shape, params);
  check_launch();
}

void fill_slots(cudaStream_t stream, const GpuGdnShape& shape, const DeltaRuleParams& params,
                const SlotLayout& layout) {
  fill_slots_kernel<<<dim3(64, static_cast<uint32_t>(params.step.limits.max_rows)), 256, 0,
                      stream>>>(shape, params, layout);
  check_launch();
}

void exact_delta_rule(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                      const float* before, double* out, double* states) {
  DeltaRuleParams from = params;
  from.slots.data = const_cast<float*>(before);
  const dim3 grid(static_cast<uint32_t>(params.shape.v_dim + kExactWarps - 1) / kExactWarps,
                  static_cast<uint32_t>(params.shape.num_v_heads),
                  static_cast<uint32_t>(params.step.limits.max_rows));
  exact_kernel<<<grid, 32 * kExactWarps, 0, stream>>>(from, layout, out, states);
  check_launch();
}

void sum_output_errors(cudaStream_t stream, const DeltaRuleParams& params, const double* exact,
                       ErrorSums* sums) {
  const dim3 grid(static_cast<uint32_t>(params.step.limits.max_tokens),
                  static_cast<uint32_t>(params.shape.num_v_heads + 3) / 4);
  for (const bool second_pass : {false, true}) {
    output_errors_kernel<<<grid, 128, 0, stream>>>(params, exact, second_pass, sums);
  }
  check_launch();
}

void sum_state_errors(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                      const double* exact, ErrorSums* sums) {
  const dim3 grid(static_cast<uint32_t>(params.shape.v_dim + 3) / 4,
                  static_cast<uint32_t>(params.shape.num_v_heads), num_state_sets(params));
  for (const bool second_pass : {false, true}) {
    state_errors_kernel<<<grid, 128, 0, stream>>>(params, layout, exact, second_pass, sums);
  }
  check_launch();
}

void check_untouched(cudaStream_t stream, const DeltaRuleParams& params, const SlotLayout& layout,
                     RowSet rows, int64_t out_elements, const float* before, Untouched* found) {
  untouched_outputs_kernel<<<1024, 256, 0, stream>>>(params, rows, out_elements, found);
  untouched_slots_kernel<<<dim3(64, static_cast<uint32_t>(params.slots.num_slots)), 256, 0,
                           stream>>>(params, layout, rows, before, found);
  check_launch();
}

void add_digest(cudaStream_t stream, const void* data, int64_t bytes, uint64_t salt,
                uint64_t* sum) {
  digest_kernel<<<1024, 256, 0, stream>>>(static_cast<const uint32_t*>(data), bytes / 4, salt, sum);
  check_launch();
}

}  // namespace headrace::gdn
