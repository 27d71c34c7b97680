// SPDX-License-Identifier: Apache-2.0
// One forward pass under way: where its ops are submitted and the scratch memory that layers hand
// activations on through. Layers read `normed` and write `delta`; what lies between is theirs.
#pragma once

#include <cstdint>

#include "metadata/step.h"
#include "model/model.h"
#include "ops/backend.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace headrace::model {

// Widest rows that any layer of a model needs, in floats.
struct ScratchWidths {
  int64_t hidden = 0;
  int64_t projection = 0;
  int64_t mixed = 0;
  int64_t query = 0;
};

struct Scratch {
  float* residual = nullptr;    // [T, hidden]
  float* normed = nullptr;      // [T, hidden] input of a layer
  float* delta = nullptr;       // [T, hidden] output of a layer, not yet in the residual
  float* projection = nullptr;  // [T, projection]
  float* mixed = nullptr;       // [T, mixed]
  float* query = nullptr;       // [T, query]
  float* gdn = nullptr;         // gdn_mix_workspace_floats
  int64_t size_bytes = 0;
};

// Divides `base` (may be null: sizes only) from the limits alone.
Scratch lay_out_scratch(const ScratchWidths& widths, const gdn::GdnShape* gdn,
                        const metadata::Limits& limits, void* base);

struct Pass {
  Stream& stream;
  const ops::Backend& ops;
  Cache& cache;
  metadata::StepView step;
  Scratch scratch;
  bool has_delta = false;
};

// An RMSNorm over the residual.
struct Norm {
  Buffer weight;  // [hidden]
  float weight_offset = 0.0f;
  float eps = 0.0f;
};

// residual += delta (if a layer left one); normed = norm(residual).
void normalise(Pass& pass, const Norm& norm);

// out = weight · x (+ bias), rows dense on both sides.
void linear(Pass& pass, const ops::PreparedWeight& weight, const Buffer* bias, const float* x,
            float* out, ops::TokenCount count = ops::TokenCount::kTokens);

}  // namespace headrace::model
