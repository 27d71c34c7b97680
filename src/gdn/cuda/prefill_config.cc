// SPDX-License-Identifier: Apache-2.0
#include "gdn/cuda/prefill_config.h"

namespace headrace::gdn {
namespace {

constexpr int32_t kHeadDim = 128;
constexpr int32_t kMaxGroup = 8;
constexpr int32_t kTermsBlocks = 3;  // that a multiprocessor holds

bool is_multiple(int64_t value, int64_t of) { return value % of == 0; }
bool strides_fit(const HeadStride& stride) {
  return is_multiple(stride.token, 8) && is_multiple(stride.head, 8) && stride.token > 0 &&
         stride.head > 0;
}
bool is_aligned(const void* data) { return is_multiple(reinterpret_cast<intptr_t>(data), 16); }

}  // namespace

std::string PrefillConfig::to_string() const {
  return std::string("hopper prefill ") + dtype_name(dtype) + ", " + std::to_string(terms_blocks) +
         " + " + std::to_string(scan_blocks) + " blocks";
}

Result<PrefillConfig> choose_prefill_kernel(const DeltaRuleParams& params,
                                            int32_t num_multiprocessors) {
  const GdnShape& shape = params.shape;
  if (shape.k_dim != kHeadDim || shape.v_dim != kHeadDim) {
    return unsupported("GDN heads of " + std::to_string(shape.k_dim) + " × " +
                       std::to_string(shape.v_dim) + "; the Hopper kernel takes 128 × 128");
  }
  if (params.dtype != DType::kBF16 && params.dtype != DType::kF16) {
    return unsupported(std::string("q, k and v of ") + dtype_name(params.dtype));
  }
  const int32_t group = shape.num_v_heads / shape.num_k_heads;
  if (group > kMaxGroup || group * shape.num_k_heads != shape.num_v_heads) {
    return unsupported(std::to_string(shape.num_v_heads) + " value heads on " +
                       std::to_string(shape.num_k_heads) + " key heads");
  }
  if (params.slots.state_dtype != DType::kF32 && params.slots.state_dtype != DType::kBF16) {
    return unsupported(std::string("a state of ") + dtype_name(params.slots.state_dtype));
  }
  if (!strides_fit(params.q_stride) || !strides_fit(params.k_stride) ||
      !strides_fit(params.v_stride) || !is_multiple(params.out_stride, 8)) {
    return unsupported("a stride that is no multiple of 16 bytes");
  }
  if (!is_aligned(params.q) || !is_aligned(params.k) || !is_aligned(params.v) ||
      !is_aligned(params.out)) {
    return unsupported("q, k, v or out not aligned to 16 bytes");
  }
  return PrefillConfig{.dtype = params.dtype,
                       .terms_blocks = kTermsBlocks * num_multiprocessors,
                       .scan_blocks = num_multiprocessors};
}

}  // namespace headrace::gdn
