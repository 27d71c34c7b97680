// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gdn_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <stdexcept>

#include "gdn/gates.h"
#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/gdn_problem_kernels.h"

namespace headrace::gdn {
namespace {

using attention::check_status;
using attention::value_of;
using metadata::RowKind;
using metadata::StepView;

// A token, or a row of a state, may be this many times as wrong as all of them together.
constexpr double kTokenFactor = 10.0;

void check_cuda(cudaError_t error, const char* call) { check_status(cuda_status(error, call)); }

// The end of a buffer is NaN as well: reads past it show.
Buffer allocate(int64_t bytes) {
  return value_of(
      Buffer::allocate(Device::kCuda, static_cast<size_t>(std::max<int64_t>(bytes, 4))));
}
int64_t bytes_of(int64_t count, DType dtype) {
  return count * static_cast<int64_t>(dtype_size_bytes(dtype));
}

template <typename T>
std::vector<T> download(const void* from, int64_t count) {
  std::vector<T> to(static_cast<size_t>(count));
  check_cuda(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return to;
}

float widen(uint16_t bits, DType dtype) {
  if (dtype == DType::kBF16) {
    const uint32_t word = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                     : exponent == 31
                         ? (mantissa == 0 ? INFINITY : NAN)
                         : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

std::vector<float> download_floats(const void* from, int64_t count, DType dtype) {
  if (dtype == DType::kF32) return download<float>(from, count);
  std::vector<float> to;
  for (const uint16_t bits : download<uint16_t>(from, count)) to.push_back(widen(bits, dtype));
  return to;
}

const char* format_name(GateFormat format) {
  return format == GateFormat::kLog ? "log" : format == GateFormat::kLog2 ? "log2" : "linear";
}

HeadStride stride_of(const GpuGdnShape& shape, int32_t num_heads, int32_t dim, int64_t max_tokens) {
  if (shape.head_major) {
    const int64_t token = dim + shape.stride_padding;
    return {.token = token, .head = max_tokens * token + shape.stride_padding};
  }
  return {.token = int64_t{num_heads} * dim + shape.stride_padding, .head = dim};
}
int64_t extent(const HeadStride& stride, int32_t num_heads, int64_t max_tokens) {
  return std::max(stride.token * max_tokens, stride.head * num_heads);
}

}  // namespace

const char* gate_kind_name(GateKind kind) {
  switch (kind) {
    case GateKind::kNoDecay:
      return "no decay";
    case GateKind::kNearOne:
      return "near one";
    case GateKind::kBlackout:
      return "blackout";
    case GateKind::kStrong:
      return "strong";
    default:
      return "model";
  }
}

std::string to_string(const GpuGdnShape& shape) {
  const GdnShape& heads = shape.heads;
  std::string text = std::to_string(heads.num_k_heads) + "/" + std::to_string(heads.num_v_heads) +
                     " K " + std::to_string(heads.k_dim) + " V " + std::to_string(heads.v_dim) +
                     " " + dtype_name(shape.dtype) + " state " + dtype_name(shape.state_dtype) +
                     ", gates " + format_name(shape.gate_format) + " " +
                     gate_kind_name(shape.gates);
  if (shape.head_major) text += ", head-major";
  if (shape.key_bias != 0) text += ", key bias " + std::to_string(shape.key_bias);
  if (shape.stride_padding > 0) text += ", padded " + std::to_string(shape.stride_padding);
  return text;
}

GpuGdnProblem::GpuGdnProblem(const GpuGdnShape& shape, const std::vector<test::TestRow>& rows,
                             const test::TestStepOptions& options)
    : shape_(shape),
      host_(rows, options),
      checkpoints_(options.checkpoints),
      arena_(value_of(metadata::StepArena::create(Device::kCuda, host_.view().limits))),
      stream_(value_of(CudaStream::create())),
      layout_(slot_layout(shape.heads, shape.max_window, shape.dtype, shape.state_dtype)) {
  const metadata::Limits& limits = arena_.limits();
  const GdnShape& heads = shape.heads;
  const int64_t max_tokens = limits.max_tokens;
  params_.shape = heads;
  params_.dtype = shape.dtype;
  params_.q_stride = stride_of(shape, heads.num_k_heads, heads.k_dim, max_tokens);
  params_.k_stride = params_.q_stride;
  params_.v_stride = stride_of(shape, heads.num_v_heads, heads.v_dim, max_tokens);
  params_.gate_format = shape.gate_format;
  params_.out_stride = heads.value_dim() + shape.stride_padding;
  q_ = allocate(bytes_of(extent(params_.q_stride, heads.num_k_heads, max_tokens), shape.dtype));
  k_ = allocate(static_cast<int64_t>(q_.size_bytes()));
  v_ = allocate(bytes_of(extent(params_.v_stride, heads.num_v_heads, max_tokens), shape.dtype));
  gate_ = allocate(max_tokens * heads.num_v_heads * 4);
  beta_ = allocate(max_tokens * heads.num_v_heads * 4);
  out_ = allocate(bytes_of(max_tokens * params_.out_stride, shape.dtype));
  params_.q = q_.data();
  params_.k = k_.data();
  params_.v = v_.data();
  params_.gate = gate_.as<float>();
  params_.beta = beta_.as<float>();
  params_.out = out_.data();
  params_.step = arena_.view();

  SlotPool& pool = params_.slots;
  pool.num_slots = shape.num_slots > 0 ? shape.num_slots : host_.num_slots() + 1;
  pool.slot_stride = layout_.total + shape.slot_padding;
  pool.max_window = shape.max_window;
  pool.window_dtype = shape.dtype;
  pool.state_dtype = shape.state_dtype;
  pool_ = allocate(pool.slot_stride * pool.num_slots * 4);
  before_ = allocate(static_cast<int64_t>(pool_.size_bytes()));
  pool.data = pool_.as<float>();

  const int64_t state_size = int64_t{heads.value_dim()} * heads.k_dim;
  exact_out_ = allocate(max_tokens * heads.value_dim() * 8);
  exact_states_ = allocate(num_state_sets() * state_size * 8);
  sums_ = allocate(int64_t{num_state_sets()} * heads.num_v_heads *
                   static_cast<int64_t>(sizeof(ErrorSums)));
  flags_ = allocate(sizeof(Untouched));
  digest_ = allocate(sizeof(uint64_t));
  upload(false);
}

int32_t GpuGdnProblem::num_state_sets() const {
  return arena_.limits().max_rows + arena_.limits().max_checkpoints;
}

void GpuGdnProblem::set_rows(const std::vector<test::TestRow>& rows,
                             const std::vector<metadata::Checkpoint>& checkpoints,
                             bool keep_slots) {
  host_.set_rows(rows, 0, checkpoints);
  host_.rebuild();
  checkpoints_ = checkpoints;
  if (host_.num_slots() > params_.slots.num_slots) throw std::runtime_error("too many slots");
  upload(keep_slots);
}

void GpuGdnProblem::upload(bool keep_slots) {
  const auto* from = reinterpret_cast<const char*>(host_.arena().input().num_rows);
  const auto* to = reinterpret_cast<const char*>(host_.arena().arrays().counts);
  cudaStream_t stream = stream_.handle();
  check_cuda(cudaMemcpyAsync(arena_.input().num_rows, from, static_cast<size_t>(to - from),
                             cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  check_status(metadata::launch_build(stream, arena_.input(), arena_.arrays()));
  // All ones is NaN in every floating-point type.
  for (Buffer* buffer : {&q_, &k_, &v_, &gate_, &beta_}) {
    check_cuda(cudaMemsetAsync(buffer->data(), 0xff, buffer->size_bytes(), stream), "memset");
  }
  fill_tokens(stream, shape_, params_);
  if (!keep_slots) {
    check_cuda(cudaMemsetAsync(pool_.data(), 0xff, pool_.size_bytes(), stream), "memset");
    fill_slots(stream, shape_, params_, layout_);
  }
  check_cuda(cudaMemcpyAsync(before_.data(), pool_.data(), pool_.size_bytes(),
                             cudaMemcpyDeviceToDevice, stream),
             "cudaMemcpyAsync");
  reset();
  check_status(stream_.synchronize());
}

void GpuGdnProblem::reset() {
  check_cuda(cudaMemcpyAsync(pool_.data(), before_.data(), pool_.size_bytes(),
                             cudaMemcpyDeviceToDevice, stream_.handle()),
             "cudaMemcpyAsync");
  check_cuda(cudaMemsetAsync(out_.data(), 0xff, out_.size_bytes(), stream_.handle()), "memset");
}

std::string GpuGdnProblem::check(RowSet rows, double tolerance, double state_tolerance) {
  cudaStream_t stream = stream_.handle();
  const StepView& step = host_.view();
  const int64_t num_heads = shape_.heads.num_v_heads;
  if (state_tolerance == 0) state_tolerance = tolerance;
  exact_delta_rule(stream, params_, layout_, before_.as<float>(), exact_out_.as<double>(),
                   exact_states_.as<double>());
  const auto errors = [&](const auto& sum) {
    check_cuda(cudaMemsetAsync(sums_.data(), 0, sums_.size_bytes(), stream), "memset");
    sum(sums_.as<ErrorSums>());
    check_status(stream_.synchronize());
    return download<ErrorSums>(sums_.data(), num_state_sets() * num_heads);
  };
  const auto of_out = errors(
      [&](ErrorSums* sums) { sum_output_errors(stream, params_, exact_out_.as<double>(), sums); });
  const auto of_states = errors([&](ErrorSums* sums) {
    sum_state_errors(stream, params_, layout_, exact_states_.as<double>(), sums);
  });
  check_cuda(cudaMemsetAsync(flags_.data(), 0, flags_.size_bytes(), stream), "memset");
  const int64_t out_elements = arena_.limits().max_tokens * params_.out_stride;
  check_untouched(stream, params_, layout_, rows, out_elements, before_.as<float>(),
                  flags_.as<Untouched>());
  check_status(stream_.synchronize());
  const auto found = download<Untouched>(flags_.data(), 1)[0];

  std::string worst;
  double worst_excess = 1.0;
  const auto report = [&](double error, double allowed, int32_t row, const std::string& what) {
    if (!(error > allowed * worst_excess)) return;
    worst_excess = error / allowed;
    worst = to_string(shape_) + ": row " + std::to_string(row) + " (context " +
            std::to_string(step.context_len[row]) + ", query " +
            std::to_string(step.query_len[row]) + "): " + what + ", relative error " +
            std::to_string(error);
  };
  // The largest relative error of a set of heads as a whole.
  const auto judge = [&](const std::vector<ErrorSums>& sums, int64_t set, int32_t row,
                         double allowed, const std::string& what) {
    ErrorSums all;
    for (int64_t h = 0; h < num_heads; ++h) {
      const ErrorSums& one = sums[static_cast<size_t>(set * num_heads + h)];
      const std::string head = what + " of head " + std::to_string(h);
      all.error2 += one.error2;
      all.exact2 += one.exact2;
      if (one.exact2 > 0) {
        report(std::sqrt(one.error2 / one.exact2), 2 * allowed, row, head);
      } else if (one.error2 > 0) {
        report(INFINITY, allowed, row, head + " is not zero");
      }
      report(std::sqrt(one.worst_token), kTokenFactor * allowed, row, head + " in one place");
    }
    const double error = all.exact2 > 0 ? std::sqrt(all.error2 / all.exact2) : 0.0;
    report(error, allowed, row, what);
    return error;
  };
  const auto is_of = [&](int32_t row) {
    return step.kind[row] != RowKind::kPadding &&
           (rows == RowSet::kAll ||
            (rows == RowSet::kPrefill) == (step.kind[row] == RowKind::kPrefill));
  };
  worst_out_ = 0;
  worst_state_ = 0;
  for (int32_t row = 0; row < step.counts->num_rows; ++row) {
    if (!is_of(row)) continue;
    worst_out_ = std::max(worst_out_, judge(of_out, row, row, tolerance, "out"));
    if (step.final_slot[row] == 0) continue;
    worst_state_ =
        std::max(worst_state_, judge(of_states, row, row, state_tolerance, "the final state"));
  }
  for (int32_t i = 0; i < step.counts->num_checkpoints; ++i) {
    const metadata::Checkpoint& checkpoint = step.checkpoints[i];
    if (!is_of(checkpoint.row)) continue;
    worst_state_ = std::max(
        worst_state_, judge(of_states, step.limits.max_rows + i, checkpoint.row, state_tolerance,
                            "the state at " + std::to_string(checkpoint.position)));
  }
  if (!worst.empty()) return worst;
  if (found.outputs > 0) {
    return to_string(shape_) + ": " + std::to_string(found.outputs) +
           " elements of out were written that are none of these rows'";
  }
  if (found.words > 0) {
    const int64_t stride = params_.slots.slot_stride;
    return to_string(shape_) + ": " + std::to_string(found.words) +
           " words of slots were written that are none of these rows', one of them word " +
           std::to_string(found.first_word % stride) + " of slot " +
           std::to_string(found.first_word / stride);
  }
  return rows == RowSet::kPrefill ? "" : check_pending();
}

// The tokens of a verify row stand in the pending window of its final slot.
std::string GpuGdnProblem::check_pending() {
  const StepView& step = host_.view();
  const GdnShape& heads = shape_.heads;
  for (int32_t i = 0; i < step.counts->num_verify_rows; ++i) {
    const int32_t row = step.verify_rows[i];
    const int32_t slot = step.final_slot[row];
    if (slot == 0) continue;
    const float* data = slot_data(params_.slots, slot);
    const auto part = [&](int64_t at, int64_t width, DType dtype) {
      return download_floats(data + at, step.query_len[row] * width, dtype);
    };
    const auto k = part(layout_.pending_k, heads.key_dim(), shape_.dtype);
    const auto v = part(layout_.pending_v, heads.value_dim(), shape_.dtype);
    const auto g = part(layout_.pending_g, heads.num_v_heads, DType::kF32);
    const auto beta = part(layout_.pending_beta, heads.num_v_heads, DType::kF32);
    const std::string what =
        to_string(shape_) + ": the pending window of row " + std::to_string(row);
    for (int64_t t = 0; t < step.query_len[row]; ++t) {
      const int64_t token = step.query_start_i64[row] + t;
      const auto head_of = [&](const Buffer& from, const HeadStride& stride, int64_t h,
                               int32_t dim) {
        const int64_t at = token * stride.token + h * stride.head;
        return download_floats(from.as<char>() + bytes_of(at, shape_.dtype), dim, shape_.dtype);
      };
      for (int64_t h = 0; h < heads.num_k_heads; ++h) {
        if (!std::ranges::equal(
                head_of(k_, params_.k_stride, h, heads.k_dim),
                std::span(k).subspan(static_cast<size_t>(t * heads.key_dim() + h * heads.k_dim),
                                     static_cast<size_t>(heads.k_dim)))) {
          return what + " has another key";
        }
      }
      for (int64_t h = 0; h < heads.num_v_heads; ++h) {
        if (!std::ranges::equal(
                head_of(v_, params_.v_stride, h, heads.v_dim),
                std::span(v).subspan(static_cast<size_t>(t * heads.value_dim() + h * heads.v_dim),
                                     static_cast<size_t>(heads.v_dim)))) {
          return what + " has another value";
        }
      }
      const int64_t gates = token * heads.num_v_heads;
      const auto gate = download<float>(params_.gate + gates, heads.num_v_heads);
      const auto want_beta = download<float>(params_.beta + gates, heads.num_v_heads);
      for (int64_t h = 0; h < heads.num_v_heads; ++h) {
        const auto at = static_cast<size_t>(t * heads.num_v_heads + h);
        const float want = decode_gate(gate[static_cast<size_t>(h)], shape_.gate_format);
        if (!(std::abs(g[at] - want) <= 1e-6f * std::max(1.0f, std::abs(want)))) {
          return what + " has log decay " + std::to_string(g[at]) + ", not " + std::to_string(want);
        }
        if (beta[at] != want_beta[static_cast<size_t>(h)]) return what + " has another β";
      }
    }
  }
  return "";
}

uint64_t GpuGdnProblem::digest() {
  check_cuda(cudaMemsetAsync(digest_.data(), 0, digest_.size_bytes(), stream_.handle()), "memset");
  auto* sum = digest_.as<uint64_t>();
  add_digest(stream_.handle(), out_.data(), static_cast<int64_t>(out_.size_bytes()), 1, sum);
  add_digest(stream_.handle(), pool_.data(), static_cast<int64_t>(pool_.size_bytes()), 2, sum);
  check_status(stream_.synchronize());
  return download<uint64_t>(sum, 1)[0];
}

std::vector<float> GpuGdnProblem::outputs() {
  check_status(stream_.synchronize());
  const int64_t width = shape_.heads.value_dim();
  const int64_t num_tokens = host_.view().counts->num_tokens;
  const auto all = download_floats(out_.data(), num_tokens * params_.out_stride, shape_.dtype);
  std::vector<float> dense;
  for (int64_t t = 0; t < num_tokens; ++t) {
    const auto begin = all.begin() + t * params_.out_stride;
    dense.insert(dense.end(), begin, begin + width);
  }
  return dense;
}

std::vector<float> GpuGdnProblem::state(int32_t slot) {
  check_status(stream_.synchronize());
  return download_floats(slot_data(params_.slots, slot) + layout_.state,
                         int64_t{shape_.heads.value_dim()} * shape_.heads.k_dim,
                         shape_.state_dtype);
}

}  // namespace headrace::gdn
