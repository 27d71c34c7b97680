// SPDX-License-Identifier: Apache-2.0
#include "model/pass.h"

namespace headrace::model {

Scratch lay_out_scratch(const ScratchWidths& widths, const gdn::GdnShape* gdn,
                        const metadata::Limits& limits, void* base) {
  constexpr int64_t kAlign = 16;  // floats in a cache line
  Scratch scratch;
  int64_t end = 0;
  const auto place = [&](int64_t floats) {
    float* begin = base == nullptr ? nullptr : static_cast<float*>(base) + end;
    end += (floats + kAlign - 1) / kAlign * kAlign;
    return begin;
  };
  const int64_t tokens = limits.max_tokens;
  scratch.residual = place(tokens * widths.hidden);
  scratch.normed = place(tokens * widths.hidden);
  scratch.delta = place(tokens * widths.hidden);
  scratch.projection = place(tokens * widths.projection);
  scratch.mixed = place(tokens * widths.mixed);
  scratch.query = place(tokens * widths.query);
  scratch.gdn = place(gdn == nullptr ? 0 : gdn::gdn_mix_workspace_floats(*gdn, limits));
  scratch.size_bytes = end * static_cast<int64_t>(sizeof(float));
  return scratch;
}

void normalise(Pass& pass, const Norm& norm) {
  ops::AddRmsNormParams params;
  params.residual = pass.scratch.residual;
  params.delta = pass.has_delta ? pass.scratch.delta : nullptr;
  params.weight = norm.weight.as<float>();
  params.weight_offset = norm.weight_offset;
  params.eps = norm.eps;
  params.out = pass.scratch.normed;
  params.hidden = static_cast<int32_t>(norm.weight.size_bytes() / sizeof(float));
  params.step = pass.step;
  pass.ops.add_rms_norm(pass.stream, params);
  pass.has_delta = false;
}

void linear(Pass& pass, const ops::PreparedWeight& weight, const Buffer* bias, const float* x,
            float* out, ops::TokenCount count) {
  ops::LinearParams params;
  params.weight = &weight;
  params.bias = bias == nullptr ? nullptr : bias->as<float>();
  params.x = x;
  params.x_stride = weight.cols();
  params.out = out;
  params.out_stride = weight.rows();
  params.count = count;
  params.step = pass.step;
  pass.ops.linear(pass.stream, params);
}

}  // namespace headrace::model
