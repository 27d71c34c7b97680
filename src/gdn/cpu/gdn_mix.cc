// SPDX-License-Identifier: Apache-2.0
// The composite op: checks its arguments, deals out the workspace and calls the parts; and the
// submission of each part to the stream.
#include <string>

#include "base/check.h"
#include "gdn/cpu/parts.h"
#include "gdn/gdn.h"
#include "gdn/slot_layout.h"

namespace headrace::gdn {
namespace {

// What the parts hand to each other, as offsets into the workspace in floats.
struct Workspace {
  int64_t conv = 0;
  int64_t q = 0;
  int64_t k = 0;
  int64_t v = 0;
  int64_t gate = 0;
  int64_t beta = 0;
  int64_t delta_rule = 0;
  int64_t total = 0;
};

Workspace workspace_layout(const GdnShape& shape, const metadata::Limits& limits) {
  constexpr int64_t kAlign = 16;  // floats in a cache line
  int64_t end = 0;
  const auto place = [&end](int64_t floats) {
    const int64_t begin = end;
    end += (floats + kAlign - 1) / kAlign * kAlign;
    return begin;
  };
  const int64_t tokens = limits.max_tokens;
  Workspace layout;
  layout.conv = place(tokens * shape.conv_dim());
  layout.q = place(tokens * shape.key_dim());
  layout.k = place(tokens * shape.key_dim());
  layout.v = place(tokens * shape.value_dim());
  layout.gate = place(tokens * shape.num_v_heads);
  layout.beta = place(tokens * shape.num_v_heads);
  layout.delta_rule = place(delta_rule_workspace_floats(shape, limits));
  layout.total = end;
  return layout;
}

void check_shape(const GdnShape& shape) {
  HEADRACE_CHECK(
      shape.num_k_heads > 0 && shape.num_v_heads > 0 && shape.num_v_heads % shape.num_k_heads == 0,
      "GDN value heads must be a multiple of the key heads");
  HEADRACE_CHECK(shape.k_dim > 0 && shape.k_dim <= kMaxKDim && shape.v_dim > 0,
                 "GDN key head dimension must be 1…" + std::to_string(kMaxKDim));
  HEADRACE_CHECK(shape.conv_width >= 1 && shape.conv_width <= kMaxConvWidth,
                 "GDN convolution width must be 1…" + std::to_string(kMaxConvWidth));
}

void check_slots(const GdnShape& shape, const SlotPool& slots) {
  HEADRACE_CHECK(slots.max_window >= 0 && slots.max_window <= metadata::kMaxVerifyTokens,
                 "verify windows hold at most " + std::to_string(metadata::kMaxVerifyTokens));
  HEADRACE_CHECK(slots.slot_stride >= slot_words(shape, slots.max_window),
                 "slot_stride is below slot_words()");
  HEADRACE_CHECK(slots.window_dtype == DType::kF32 && slots.state_dtype == DType::kF32,
                 "on the CPU slots hold fp32");
}

CpuStream& cpu(Stream& stream) {
  HEADRACE_CHECK(stream.device() == Device::kCpu, "a CPU op was given a stream of another device");
  return static_cast<CpuStream&>(stream);
}

template <typename Params>
void submit(Stream& stream, const Params& params,
            void (*part)(ThreadPool&, const CpuKernels&, const Params&)) {
  check_shape(params.shape);
  HEADRACE_CHECK(params.dtype == DType::kF32, "on the CPU GDN takes fp32");
  cpu(stream).run([params, part](ThreadPool& pool) { part(pool, cpu_kernels(), params); });
}

}  // namespace

int64_t gdn_mix_workspace_floats(const GdnShape& shape, const metadata::Limits& limits) {
  return workspace_layout(shape, limits).total;
}

void gdn_mix(ThreadPool& pool, const CpuKernels& kernels, const GdnMixParams& params) {
  const GdnShape& shape = params.shape;
  const Workspace layout = workspace_layout(shape, params.step.limits);
  float* const base = params.workspace;
  const float* const z = static_cast<const float*>(params.projection) + shape.conv_dim();
  const float* const b = z + shape.value_dim();

  causal_conv(pool, kernels,
              {.shape = shape,
               .x = params.projection,
               .x_stride = params.projection_stride,
               .weight = params.conv_weight,
               .slots = params.slots,
               .out = base + layout.conv,
               .step = params.step});
  post_conv(pool, kernels,
            {.shape = shape,
             .conv = base + layout.conv,
             .b = b,
             .a = b + shape.num_v_heads,
             .gate_stride = params.projection_stride,
             .a_log = params.a_log,
             .dt_bias = params.dt_bias,
             .gate_format = GateFormat::kLog,
             .q = base + layout.q,
             .k = base + layout.k,
             .v = base + layout.v,
             .q_stride = head_major(shape.k_dim, params.step.limits),
             .k_stride = head_major(shape.k_dim, params.step.limits),
             .v_stride = head_major(shape.v_dim, params.step.limits),
             .gate = base + layout.gate,
             .beta = base + layout.beta,
             .step = params.step});
  delta_rule(pool, kernels,
             {.shape = shape,
              .q = base + layout.q,
              .k = base + layout.k,
              .v = base + layout.v,
              .q_stride = head_major(shape.k_dim, params.step.limits),
              .k_stride = head_major(shape.k_dim, params.step.limits),
              .v_stride = head_major(shape.v_dim, params.step.limits),
              .gate = base + layout.gate,
              .gate_format = GateFormat::kLog,
              .beta = base + layout.beta,
              .slots = params.slots,
              .out = params.out,
              .out_stride = params.out_stride,
              .workspace = base + layout.delta_rule,
              .step = params.step});
  gated_norm(pool, kernels,
             {.shape = shape,
              .z = z,
              .z_stride = params.projection_stride,
              .weight = params.norm_weight,
              .eps = params.norm_eps,
              .out = params.out,
              .out_stride = params.out_stride,
              .step = params.step});
}

void gdn_mix(Stream& stream, const GdnMixParams& params) {
  check_slots(params.shape, params.slots);
  submit<GdnMixParams>(stream, params, gdn_mix);
}

void causal_conv(Stream& stream, const ConvParams& params) {
  check_slots(params.shape, params.slots);
  submit<ConvParams>(stream, params, causal_conv);
}

void post_conv(Stream& stream, const PostConvParams& params) {
  submit<PostConvParams>(stream, params, post_conv);
}

void delta_rule(Stream& stream, const DeltaRuleParams& params) {
  check_slots(params.shape, params.slots);
  submit<DeltaRuleParams>(stream, params, delta_rule);
}

void gated_norm(Stream& stream, const GatedNormParams& params) {
  submit<GatedNormParams>(stream, params, gated_norm);
}

}  // namespace headrace::gdn
