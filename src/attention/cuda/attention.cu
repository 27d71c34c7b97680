// SPDX-License-Identifier: Apache-2.0
#include "attention/cuda/attention.h"

#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/device_properties.h"

namespace headrace::attention {
namespace {

// The decode and prefill kernels are machine code for this one.
constexpr int32_t kHopper = 90;

Status check_shapes(const AttentionParams& params) {
  const HeadShape& heads = params.heads;
  const KvCache& cache = params.cache;
  if (sets_reserved(params)) return unsupported(kReservedIsSet);
  if (heads.num_kv_heads < 1 || heads.num_q_heads < 1 ||
      heads.num_q_heads % heads.num_kv_heads != 0 || heads.head_dim < 1) {
    return invalid_argument(std::to_string(heads.num_q_heads) + " query heads of " +
                            std::to_string(heads.head_dim) + " elements over " +
                            std::to_string(heads.num_kv_heads) +
                            " key heads; the first is a multiple of the last");
  }
  if (cache.page_size < 1 || cache.page_size != params.step.limits.page_size) {
    return invalid_argument("the cache has pages of " + std::to_string(cache.page_size) +
                            " tokens, the step of " + std::to_string(params.step.limits.page_size));
  }
  if (cache.data == nullptr || params.q == nullptr || params.out == nullptr) {
    return invalid_argument("attention without q, out or cache");
  }
  return {};
}

// Nothing in `to`, and `is_left`, when the path does not take the problem.
template <typename Launch>
Status keep_if_supported(Result<Launch> prepared, std::optional<Launch>* to, bool* is_left) {
  *is_left = prepared.status().code() == StatusCode::kUnsupported;
  if (*is_left) return {};
  HEADRACE_RETURN_IF_ERROR(prepared.status());
  *to = std::move(prepared).value();
  return {};
}

}  // namespace

std::string to_string(const AttentionLaunch& launch) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (launch.decode) add(to_string(launch.decode->config));
  if (launch.prefill) add(launch.prefill->config.to_string());
  if (launch.general) {
    add(to_string(launch.general->config) + ", " + row_set_name(launch.general->params.rows));
  }
  if (launch.plain) add(to_string(*launch.plain));
  return text;
}

int64_t attention_workspace_bytes(const HeadShape& heads, const metadata::Limits& limits,
                                  const metadata::SplitShape& shape, int32_t max_query_len) {
  return kAttentionQueueBytes + decode_workspace_bytes(heads, limits, shape, max_query_len);
}

Status clear_attention_workspace(cudaStream_t stream, void* workspace) {
  return cuda_status(cudaMemsetAsync(workspace, 0, kAttentionQueueBytes, stream),
                     "cudaMemsetAsync");
}

Result<AttentionLaunch> prepare_attention(const AttentionParams& params,
                                          const AttentionOptions& options) {
  HEADRACE_RETURN_IF_ERROR(check_shapes(params));
  if (options.workspace == nullptr) return invalid_argument("attention without a workspace");
  HEADRACE_ASSIGN_OR_RETURN(const GpuProperties gpu, gpu_properties());
  auto* workspace = static_cast<char*>(options.workspace);
  auto* queues = reinterpret_cast<WorkQueue*>(workspace);
  AttentionLaunch launch;
  bool decode_is_left = true;
  bool prefill_is_left = options.has_prefill_rows;
  if (gpu.compute_capability == kHopper) {
    HEADRACE_RETURN_IF_ERROR(
        keep_if_supported(prepare_decode(params, {.split = options.split,
                                                  .max_query_len = options.max_query_len,
                                                  .workspace = workspace + kAttentionQueueBytes,
                                                  .programmatic = options.programmatic,
                                                  .early_pages = options.early_pages}),
                          &launch.decode, &decode_is_left));
    if (options.has_prefill_rows) {
      HEADRACE_RETURN_IF_ERROR(keep_if_supported(prepare_prefill(params, &queues[0]),
                                                 &launch.prefill, &prefill_is_left));
    }
  }
  if (decode_is_left || prefill_is_left) {
    const RowSet rows = !prefill_is_left ? RowSet::kDecode
                        : decode_is_left ? RowSet::kAll
                                         : RowSet::kPrefill;
    bool is_left = true;
    HEADRACE_RETURN_IF_ERROR(
        keep_if_supported(prepare_general(params, rows, &queues[1]), &launch.general, &is_left));
    if (is_left) {
      HEADRACE_ASSIGN_OR_RETURN(launch.plain, prepare_plain(params, rows));
    }
  }
  return launch;
}

Status launch_attention(cudaStream_t stream, const AttentionLaunch& launch) {
  if (launch.decode) HEADRACE_RETURN_IF_ERROR(launch_decode(stream, *launch.decode));
  if (launch.prefill) HEADRACE_RETURN_IF_ERROR(launch_prefill(stream, *launch.prefill));
  if (launch.general) HEADRACE_RETURN_IF_ERROR(launch_general(stream, *launch.general));
  if (launch.plain) HEADRACE_RETURN_IF_ERROR(launch_plain(stream, *launch.plain));
  return {};
}

}  // namespace headrace::attention
