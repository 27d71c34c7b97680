// SPDX-License-Identifier: Apache-2.0
// The public paged attention: an arena, a split for each window and a workspace, and the launches
// that fill and follow them. No kernel lives here.
#include "headrace/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "attention/cuda/attention.h"
#include "attention/cuda/clear_rows.h"
#include "attention/cuda/decode_config.h"
#include "metadata/arena.h"
#include "metadata/build_split.h"
#include "metadata/cuda/build_kernel.h"
#include "metadata/cuda/import_kernel.h"
#include "tensor/buffer.h"
#include "tensor/cuda/cuda_error.h"
#include "tensor/cuda/device_properties.h"

namespace headrace {

using attention::AttentionParams;
using metadata::SplitShape;
using metadata::SplitView;

struct PagedAttention::Impl {
  PagedAttentionOptions options;
  metadata::StepArena arena;
  // One a window that is not 0; the step carries the split of all keys itself.
  struct WindowSplit {
    SplitShape shape;
    Buffer memory;
  };
  std::vector<WindowSplit> splits;
  Buffer workspace;
  Buffer keyless;          // [R]
  Buffer errors;           // [1]
  int32_t num_tokens = 0;  // of the last plan; 0: there was none
  // The last kernel on the stream may be the plan's: nothing of it may be read early.
  bool fresh = false;

  // Launches that were prepared. What is asked of the driver for one takes longer than the launch.
  struct Prepared {
    PagedLayer layer;
    int32_t num_tokens = 0;
    bool early_pages = false;
    attention::AttentionLaunch launch;
  };
  std::vector<Prepared> prepared;
  size_t oldest = 0;  // place of the next one, once there are kMaxPrepared

  attention::HeadShape heads() const {
    return {options.num_q_heads, options.num_kv_heads, options.head_dim};
  }
  Result<SplitView> split_of(int32_t window);
  AttentionParams params_of(const PagedLayer& layer) const;
  // Valid until the next call.
  Result<const attention::AttentionLaunch*> launch_for(const PagedLayer& layer,
                                                       const AttentionParams& params);
};

namespace {

constexpr size_t kMaxPrepared = 256;

Status check_options(const PagedAttentionOptions& options) {
  const auto wrong = [](const char* name, int64_t value, const char* advice) {
    return invalid_argument(std::string("paged attention: ") + name + " is " +
                            std::to_string(value) + "; " + advice);
  };
  const int32_t group = options.num_kv_heads < 1 ? 0 : options.num_q_heads / options.num_kv_heads;
  if (group < 1 || group > 16 || options.num_q_heads % options.num_kv_heads != 0) {
    return invalid_argument("paged attention: " + std::to_string(options.num_q_heads) +
                            " query heads over " + std::to_string(options.num_kv_heads) +
                            " key heads; groups are 1 to 16");
  }
  if (options.num_pages < 1) return wrong("num_pages", options.num_pages, "give 1 or more");
  if (options.max_decode_query_len < 1 ||
      options.max_decode_query_len > metadata::kMaxVerifyTokens) {
    return wrong("max_decode_query_len", options.max_decode_query_len, "give 1 to 16");
  }
  for (const int32_t window : options.windows) {
    if (window < 0) return wrong("a window", window, "give 0 (all keys) or more");
    if (std::count(options.windows.begin(), options.windows.end(), window) > 1) {
      return wrong("a window that stands twice in windows", window, "give each once");
    }
  }
  return {};
}

}  // namespace

Result<SplitView> PagedAttention::Impl::split_of(int32_t window) {
  const auto& windows = options.windows;
  if (std::find(windows.begin(), windows.end(), window) == windows.end()) {
    return invalid_argument("paged attention: a layer with a window of " + std::to_string(window) +
                            " tokens, which options.windows does not have");
  }
  if (window == 0) return metadata::split_view(arena.view());
  const auto found = std::find_if(splits.begin(), splits.end(), [&](const WindowSplit& split) {
    return split.shape.window == window;
  });
  return metadata::split_view(
      arena.view(), found->shape,
      metadata::split_arrays_in(found->memory.data(), arena.limits(), found->shape));
}

PagedAttention::PagedAttention(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PagedAttention::PagedAttention(PagedAttention&&) noexcept = default;
PagedAttention& PagedAttention::operator=(PagedAttention&&) noexcept = default;
PagedAttention::~PagedAttention() = default;

Result<PagedAttention> PagedAttention::create(const PagedAttentionOptions& options) {
  HEADRACE_RETURN_IF_ERROR(check_options(options));
  HEADRACE_ASSIGN_OR_RETURN(const GpuProperties gpu, gpu_properties());
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  const metadata::Limits limits{
      .max_rows = options.max_rows,
      .max_tokens = options.max_tokens,
      .max_pages_per_row = options.max_pages_per_row,
      .page_size = options.page_size,
      .num_workers = attention::decode_workers(gpu.num_multiprocessors, options.num_kv_heads)};
  HEADRACE_ASSIGN_OR_RETURN(impl->arena, metadata::StepArena::create(Device::kCuda, limits));
  const auto allocate = [](Buffer& buffer, int64_t size_bytes) -> Status {
    HEADRACE_ASSIGN_OR_RETURN(
        buffer, Buffer::allocate_zeroed(Device::kCuda, static_cast<size_t>(size_bytes)));
    return {};
  };
  int64_t workspace_bytes = 0;
  for (const int32_t window : options.windows) {
    SplitShape shape = metadata::split_shape(limits);
    shape.window = window;
    workspace_bytes =
        std::max(workspace_bytes, attention::attention_workspace_bytes(
                                      impl->heads(), limits, shape, options.max_decode_query_len));
    if (window == 0) continue;
    impl->splits.push_back({.shape = shape, .memory = {}});
    HEADRACE_RETURN_IF_ERROR(
        allocate(impl->splits.back().memory, metadata::split_arrays_bytes(limits, shape)));
  }
  HEADRACE_RETURN_IF_ERROR(allocate(impl->workspace, workspace_bytes));
  HEADRACE_RETURN_IF_ERROR(allocate(impl->keyless, options.max_rows));
  HEADRACE_RETURN_IF_ERROR(allocate(impl->errors, sizeof(metadata::ImportErrors)));
  metadata::ImportErrors none;
  HEADRACE_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(impl->errors.data(), &none, sizeof(none), cudaMemcpyHostToDevice));
  return PagedAttention(std::move(impl));
}

Status PagedAttention::plan(const PagedBatch& batch, void* stream) {
  Impl& impl = *impl_;
  if (batch.num_rows < 0 || batch.num_rows > impl.options.max_rows) {
    return invalid_argument("paged attention: a batch of " + std::to_string(batch.num_rows) +
                            " rows; max_rows is " + std::to_string(impl.options.max_rows));
  }
  const int32_t max_tokens = impl.options.max_tokens;
  if (batch.num_tokens < 0 || batch.num_tokens > max_tokens) {
    return invalid_argument("paged attention: a batch of " + std::to_string(batch.num_tokens) +
                            " tokens; max_tokens is " + std::to_string(max_tokens));
  }
  const bool lists = batch.page_indptr != nullptr && batch.page_indices != nullptr &&
                     batch.last_page_len != nullptr;
  const bool table = batch.block_table != nullptr && batch.seq_lens != nullptr;
  if (lists == table) {
    return invalid_argument(
        "paged attention: give page_indptr, page_indices and last_page_len, or block_table and "
        "seq_lens");
  }
  if (lists && batch.num_page_indices < 1) {
    return invalid_argument("paged attention: num_page_indices is " +
                            std::to_string(batch.num_page_indices) +
                            "; give the entries of page_indices that may be read");
  }
  const int32_t num_tokens = batch.num_tokens == 0 ? max_tokens : batch.num_tokens;
  metadata::Limits limits = impl.arena.limits();
  limits.max_tokens = num_tokens;
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  const metadata::ImportParams import{.query_indptr = batch.query_indptr,
                                      .page_indptr = batch.page_indptr,
                                      .page_indices = batch.page_indices,
                                      .last_page_len = batch.last_page_len,
                                      .num_page_indices = batch.num_page_indices,
                                      .block_table = batch.block_table,
                                      .block_table_stride = batch.block_table_stride,
                                      .seq_lens = batch.seq_lens,
                                      .num_rows = batch.num_rows,
                                      .num_rows_in_use = batch.num_rows_in_use,
                                      .num_pages = impl.options.num_pages,
                                      .max_decode_query_len = impl.options.max_decode_query_len,
                                      .decode_only = impl.options.decode_only,
                                      .limits = limits,
                                      .input = impl.arena.input(),
                                      .keyless = impl.keyless.as<uint8_t>(),
                                      .errors = impl.errors.as<metadata::ImportErrors>()};
  HEADRACE_RETURN_IF_ERROR(metadata::launch_import(cuda_stream, import));
  HEADRACE_RETURN_IF_ERROR(
      metadata::launch_build(cuda_stream, impl.arena.input(), impl.arena.arrays()));
  for (Impl::WindowSplit& split : impl.splits) {
    HEADRACE_RETURN_IF_ERROR(metadata::launch_build_split(
        cuda_stream, impl.arena.view(), split.shape,
        metadata::split_arrays_in(split.memory.data(), impl.arena.limits(), split.shape)));
  }
  impl.num_tokens = num_tokens;
  impl.fresh = true;
  return {};
}

AttentionParams PagedAttention::Impl::params_of(const PagedLayer& layer) const {
  const auto element = static_cast<int64_t>(dtype_size_bytes(options.kv_dtype));
  const int64_t value_bytes =
      static_cast<const char*>(layer.values) - static_cast<const char*>(layer.keys);
  const int64_t width = int64_t{options.num_q_heads} * options.head_dim;
  AttentionParams params{.heads = heads(), .io_dtype = options.io_dtype};
  params.q = layer.q;
  params.q_stride = layer.q_stride == 0 ? width : layer.q_stride;
  params.out = layer.out;
  params.out_stride = layer.out_stride == 0 ? width : layer.out_stride;
  params.lse = layer.lse;
  // Attention only reads; the type is shared with what writes keys and values.
  params.cache = {.data = const_cast<void*>(layer.keys),
                  .dtype = options.kv_dtype,
                  .num_pages = options.num_pages,
                  .page_size = options.page_size,
                  .page_stride = layer.page_stride,
                  .value_offset = value_bytes / element,
                  .token_stride = layer.token_stride,
                  .head_stride = layer.head_stride,
                  .key_scale = layer.key_scale,
                  .value_scale = layer.value_scale,
                  .scale_stride = layer.scale_per_head ? 1 : 0};
  params.scale =
      layer.scale == 0.0f ? 1.0f / std::sqrt(static_cast<float>(options.head_dim)) : layer.scale;
  params.window = layer.window;
  params.soft_cap = layer.soft_cap;
  params.sinks = layer.sinks;
  params.step = arena.view();
  // Tokens past it are padding that attention clears: there must be none past q and out.
  params.step.limits.max_tokens = num_tokens;
  return params;
}

Result<const attention::AttentionLaunch*> PagedAttention::Impl::launch_for(
    const PagedLayer& layer, const AttentionParams& params) {
  const bool early_pages = options.programmatic && !fresh;
  for (const Prepared& known : prepared) {
    if (known.layer == layer && known.num_tokens == num_tokens &&
        known.early_pages == early_pages) {
      return &known.launch;
    }
  }
  attention::AttentionOptions how{.max_query_len = options.max_decode_query_len,
                                  .has_prefill_rows = !options.decode_only,
                                  .workspace = workspace.data(),
                                  .programmatic = options.programmatic,
                                  .early_pages = early_pages};
  HEADRACE_ASSIGN_OR_RETURN(how.split, split_of(layer.window));
  HEADRACE_ASSIGN_OR_RETURN(attention::AttentionLaunch launch,
                            attention::prepare_attention(params, how));
  Prepared made{layer, num_tokens, early_pages, std::move(launch)};
  if (prepared.size() < kMaxPrepared) {
    prepared.push_back(std::move(made));
    return &prepared.back().launch;
  }
  Prepared& place = prepared[oldest];
  oldest = (oldest + 1) % kMaxPrepared;
  place = std::move(made);
  return &place.launch;
}

Status PagedAttention::run(const PagedLayer& layer, void* stream) {
  Impl& impl = *impl_;
  if (impl.num_tokens == 0) return invalid_argument("paged attention: run() before any plan()");
  const auto element = static_cast<int64_t>(dtype_size_bytes(impl.options.kv_dtype));
  const int64_t value_bytes =
      static_cast<const char*>(layer.values) - static_cast<const char*>(layer.keys);
  if (layer.q == nullptr || layer.out == nullptr || layer.keys == nullptr ||
      layer.values == nullptr || value_bytes % element != 0) {
    return invalid_argument("paged attention: a layer needs q, out, keys and values");
  }
  const AttentionParams params = impl.params_of(layer);
  HEADRACE_ASSIGN_OR_RETURN(const attention::AttentionLaunch* launch,
                            impl.launch_for(layer, params));
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  HEADRACE_RETURN_IF_ERROR(attention::launch_attention(cuda_stream, *launch));
  impl.fresh = false;
  if (impl.options.rows_have_keys) return {};
  return attention::launch_clear_rows(cuda_stream, params, impl.keyless.as<uint8_t>());
}

Result<PagedAttentionErrors> PagedAttention::errors(void* stream) const {
  metadata::ImportErrors found;
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(&found, impl_->errors.data(), sizeof(found),
                                                cudaMemcpyDeviceToHost, cuda_stream));
  HEADRACE_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cuda_stream));
  return PagedAttentionErrors{found.broken_rows, found.broken_batches, found.last_broken_row};
}

int64_t PagedAttention::device_bytes() const {
  const Impl& impl = *impl_;
  const auto* begin = reinterpret_cast<const char*>(impl.arena.input().num_rows);
  const auto* end =
      reinterpret_cast<const char*>(impl.arena.arrays().pages_filled + impl.options.max_rows);
  auto bytes = static_cast<int64_t>(end - begin);
  for (const Buffer* buffer : {&impl.workspace, &impl.keyless, &impl.errors}) {
    bytes += static_cast<int64_t>(buffer->size_bytes());
  }
  for (const Impl::WindowSplit& split : impl.splits) {
    bytes += static_cast<int64_t>(split.memory.size_bytes());
  }
  return bytes;
}

}  // namespace headrace
