// SPDX-License-Identifier: Apache-2.0
#include "model/cache_layout.h"

#include <fmt/format.h>

#include "gdn/slot_layout.h"
#include "metadata/row.h"

namespace headrace::model {
namespace {

int64_t plane_elements(const ModelConfig& config, const CacheSpec& spec) {
  return int64_t{spec.page_size} * config.num_kv_heads * config.head_dim;
}

int64_t layer_slot_words(const ModelConfig& config, const CacheSpec& spec) {
  return gdn::slot_words(config.gdn, spec.max_window);
}

Status check(const CacheSpec& spec) {
  if (spec.num_pages < 1 || spec.num_slots < 1) {
    return invalid_argument("a cache needs at least the null page and the null slot");
  }
  if (spec.page_size < 1) {
    return invalid_argument(fmt::format("page size is {}, but must be at least 1", spec.page_size));
  }
  if (spec.max_window < 0 || spec.max_window > metadata::kMaxVerifyTokens) {
    return invalid_argument(fmt::format("verify window is {}, but must be from 0 to {} tokens",
                                        spec.max_window, metadata::kMaxVerifyTokens));
  }
  if (spec.kv_dtype != DType::kF32 && spec.kv_dtype != DType::kBF16 &&
      spec.kv_dtype != DType::kF16) {
    return unsupported(fmt::format("a KV cache in {} is not supported; use fp32, bf16 or fp16",
                                   dtype_name(spec.kv_dtype)));
  }
  return {};
}

Result<Buffer> allocate(Device device, int64_t bytes_each, int32_t count, const char* what) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(bytes_each, int64_t{count}, &bytes)) {
    return resource_exhausted(
        fmt::format("{} {} of {} bytes are more than any memory holds", count, what, bytes_each));
  }
  auto buffer = Buffer::allocate_zeroed(device, static_cast<size_t>(bytes));
  if (!buffer.ok()) {
    return buffer.status().with_context(fmt::format("{} {} of {} bytes", count, what, bytes_each));
  }
  return buffer;
}

}  // namespace

int64_t page_bytes(const ModelConfig& config, const CacheSpec& spec) {
  return config.num_layers_of(LayerKind::kAttention) * 2 * plane_elements(config, spec) *
         static_cast<int64_t>(dtype_size_bytes(spec.kv_dtype));
}

int64_t slot_bytes(const ModelConfig& config, const CacheSpec& spec) {
  const int64_t layers = config.num_layers_of(LayerKind::kGdn);
  return layers == 0
             ? 0
             : layers * layer_slot_words(config, spec) * static_cast<int64_t>(sizeof(float));
}

attention::KvCache kv_cache_of_layer(const ModelConfig& config, Cache& cache, int32_t index) {
  const CacheSpec& spec = cache.spec;
  const int64_t element_bytes = static_cast<int64_t>(dtype_size_bytes(spec.kv_dtype));
  const int64_t plane = plane_elements(config, spec);
  attention::KvCache kv;
  kv.data = cache.pages.as<std::byte>() + index * 2 * plane * element_bytes;
  kv.dtype = spec.kv_dtype;
  kv.num_pages = spec.num_pages;
  kv.page_size = spec.page_size;
  kv.page_stride = page_bytes(config, spec) / element_bytes;
  kv.value_offset = plane;
  kv.token_stride = int64_t{config.num_kv_heads} * config.head_dim;
  kv.head_stride = config.head_dim;
  return kv;
}

gdn::SlotPool slot_pool_of_layer(const ModelConfig& config, Cache& cache, int32_t index) {
  const int64_t floats = layer_slot_words(config, cache.spec);
  gdn::SlotPool pool;
  pool.data = cache.slots.as<float>() + index * floats;
  pool.num_slots = cache.spec.num_slots;
  pool.slot_stride = config.num_layers_of(LayerKind::kGdn) * floats;
  pool.max_window = cache.spec.max_window;
  return pool;
}

Result<Cache> allocate_cache(const Model& model, const CacheSpec& spec) {
  HEADRACE_RETURN_IF_ERROR(check(spec));
  const Device device = model.backend().device;
  Cache cache;
  cache.spec = spec;
  HEADRACE_ASSIGN_OR_RETURN(cache.pages,
                            allocate(device, model.page_bytes(spec), spec.num_pages, "pages"));
  HEADRACE_ASSIGN_OR_RETURN(cache.slots,
                            allocate(device, model.slot_bytes(spec), spec.num_slots, "slots"));
  return cache;
}

}  // namespace headrace::model
