// SPDX-License-Identifier: Apache-2.0
#include "attention/merge_state.h"

#include <array>
#include <string>

#include "attention/cuda/merge_state.h"
#include "tensor/convert.h"

namespace headrace {

namespace attention {

Status check_merge_state(const MergeStateParams& params) {
  if (params.num_vectors < 0 || params.head_dim < 1) {
    return invalid_argument("merge_state of " + std::to_string(params.num_vectors) +
                            " vectors of " + std::to_string(params.head_dim) + " elements");
  }
  if (!is_float_dtype(params.dtype)) {
    return invalid_argument(std::string("merge_state takes fp32, bf16 and fp16, not ") +
                            dtype_name(params.dtype));
  }
  if (params.num_vectors > 0 &&
      (params.o_a == nullptr || params.lse_a == nullptr || params.o_b == nullptr ||
       params.lse_b == nullptr || params.o == nullptr)) {
    return invalid_argument("merge_state needs o_a, lse_a, o_b, lse_b and o; only lse may be null");
  }
  return {};
}

}  // namespace attention

Status merge_state_on_host(const MergeStateParams& params) {
  HEADRACE_RETURN_IF_ERROR(attention::check_merge_state(params));
  constexpr int64_t kAtOnce = 64;
  std::array<float, kAtOnce> a;
  std::array<float, kAtOnce> b;
  for (int64_t i = 0; i < params.num_vectors; ++i) {
    const attention::MergeWeights weights =
        attention::merge_weights(params.lse_a[i], params.lse_b[i]);
    for (int64_t d = 0; d < params.head_dim; d += kAtOnce) {
      const int64_t offset = i * params.head_dim + d;
      const int64_t count = std::min(kAtOnce, params.head_dim - d);
      widen(params.o_a, params.dtype, offset, count, a.data());
      widen(params.o_b, params.dtype, offset, count, b.data());
      for (size_t e = 0; e < static_cast<size_t>(count); ++e) {
        a[e] = attention::merge_element(weights, a[e], b[e]);
      }
      narrow(a.data(), count, params.o, params.dtype, offset);
    }
    if (params.lse != nullptr) params.lse[i] = weights.lse;
  }
  return {};
}

Status merge_state_on_device(const MergeStateParams& params, void* stream) {
  HEADRACE_RETURN_IF_ERROR(attention::check_merge_state(params));
#ifdef HEADRACE_CUDA
  return attention::launch_merge_state(params, stream);
#else
  static_cast<void>(stream);
  return unsupported(
      "this build has no CUDA: build with -DHEADRACE_CUDA=ON (scripts/quickstart --cuda), or use "
      "merge_state_on_host");
#endif
}

}  // namespace headrace
