// SPDX-License-Identifier: Apache-2.0
// Qwen3NextForCausalLM without experts: Qwen3.5 with fused GDN projections. Each key head brings
// its own q, k and the v and z of the value heads that read it:
//   in_proj_qkvz  [Hk][q K | k K | v r·V | z r·V]     in_proj_ba  [Hk][b r | a r]     r = Hv / Hk
#include <cstddef>

#include "model/qwen3_5.h"

namespace headrace::model {
namespace {

// Appends rows [begin, begin + count) of every one of `heads` equal row groups of `fused`.
void append_slices(const LoadedWeight& fused, int64_t heads, int64_t begin, int64_t count,
                   std::vector<LoadedWeight>& parts) {
  const int64_t group = fused.view.rows / heads;
  const int64_t row_bytes =
      fused.view.cols * static_cast<int64_t>(dtype_size_bytes(fused.view.dtype));
  for (int64_t head = 0; head < heads; ++head) {
    LoadedWeight slice = fused;
    slice.view.data =
        static_cast<const std::byte*>(fused.view.data) + (head * group + begin) * row_bytes;
    slice.view.rows = count;
    parts.push_back(std::move(slice));
  }
}

Result<std::vector<LoadedWeight>> fused_projections(WeightLoader& loader,
                                                    const gdn::GdnShape& shape, int32_t layer) {
  HEADRACE_ASSIGN_OR_RETURN(const LoadedWeight qkvz, loader.load(WeightId::kGdnQkvz, layer));
  HEADRACE_ASSIGN_OR_RETURN(const LoadedWeight ba, loader.load(WeightId::kGdnBa, layer));
  const int64_t heads = shape.num_k_heads;
  const int64_t ratio = shape.num_v_heads / heads;
  const int64_t k = shape.k_dim;
  const int64_t v = ratio * shape.v_dim;
  std::vector<LoadedWeight> parts;
  append_slices(qkvz, heads, 0, k, parts);          // q
  append_slices(qkvz, heads, k, k, parts);          // k
  append_slices(qkvz, heads, 2 * k, v, parts);      // v
  append_slices(qkvz, heads, 2 * k + v, v, parts);  // z
  append_slices(ba, heads, 0, ratio, parts);        // b
  append_slices(ba, heads, ratio, ratio, parts);    // a
  return parts;
}

}  // namespace

const Family& qwen3_next_family() {
  using enum WeightId;
  static const WeightTable weights = hybrid_weights({
      {kGdnQkvz,
       "model.layers.*.linear_attn.in_proj_qkvz.weight",
       {Dim::kGdnQkvz, Dim::kHidden},
       Where::kGdn},
      {kGdnBa,
       "model.layers.*.linear_attn.in_proj_ba.weight",
       {Dim::kGdnBa, Dim::kHidden},
       Where::kGdn},
  });
  static const Family family{
      weights,
      {"model."},
      {"mtp."},
      kHybridNormOffset,
      [](const ModelConfig& config, WeightLoader& loader) {
        return create_hybrid_decoder(config, loader, fused_projections);
      },
  };
  return family;
}

}  // namespace headrace::model
