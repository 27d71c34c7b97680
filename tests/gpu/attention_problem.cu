// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/attention_problem.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "metadata/build_split.h"
#include "metadata/cuda/build_kernel.h"
#include "tensor/cuda/cuda_error.h"

namespace headrace::attention {
namespace {

using metadata::RowKind;
using metadata::StepView;

void check_cuda(cudaError_t error, const char* call) { check_status(cuda_status(error, call)); }

__host__ __device__ uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// Standard normal, known by what it is for.
__device__ float normal(uint64_t kind, uint64_t row, uint64_t position, uint64_t head,
                        uint64_t dim) {
  const uint64_t bits = mix(mix(mix(kind * 1000003 + row) + position) + head * 4096 + dim);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-24f;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

__device__ double load(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kBF16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::kF16:
      return __half2float(static_cast<const __half*>(data)[i]);
    case DType::kFP8E4M3:
      return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}
__device__ void store(void* data, DType dtype, int64_t i, float value) {
  switch (dtype) {
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
      break;
    case DType::kF16:
      static_cast<__half*>(data)[i] = __float2half(value);
      break;
    case DType::kFP8E4M3:
      static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

__device__ int64_t key_at(const AttentionParams& params, int64_t row, int64_t position,
                          int64_t head) {
  const KvCache& cache = params.cache;
  const int64_t page =
      params.step
          .page_table[row * params.step.limits.max_pages_per_row + position / cache.page_size];
  return page * cache.page_stride + position % cache.page_size * cache.token_stride +
         head * cache.head_stride;
}

// Block (x, row): keys and values of all live positions, strided over blockIdx.x.
__global__ void fill_cache(AttentionParams params) {
  const auto row = static_cast<int64_t>(blockIdx.y);
  const int64_t per_key = static_cast<int64_t>(params.heads.num_kv_heads) * params.heads.head_dim;
  for (int64_t position = blockIdx.x; position < params.step.seq_len[row]; position += gridDim.x) {
    for (int64_t i = threadIdx.x; i < per_key; i += blockDim.x) {
      const int64_t head = i / params.heads.head_dim;
      const int64_t dim = i % params.heads.head_dim;
      const int64_t at = key_at(params, row, position, head) + dim;
      store(params.cache.data, params.cache.dtype, at, normal(1, row, position, head, dim));
      store(params.cache.data, params.cache.dtype, at + params.cache.value_offset,
            normal(2, row, position, head, dim));
    }
  }
}

__global__ void fill_queries(AttentionParams params, float magnitude) {
  const int64_t token = blockIdx.x;
  if (token >= params.step.counts->num_tokens) return;
  const int64_t head_dim = params.heads.head_dim;
  for (int64_t i = threadIdx.x; i < params.heads.num_q_heads * head_dim; i += blockDim.x) {
    store(const_cast<void*>(params.q), params.io_dtype, token * params.q_stride + i,
          magnitude * normal(3, params.step.token_row[token], params.step.token_position[token],
                             i / head_dim, i % head_dim));
  }
}

// Block (token, query head), 256 threads: a thread a key for the scores, a thread a dim for the
// sum. In two passes over the keys: maximum, then sums. exact [T, Hq, D], exact_lse [T, Hq].
__global__ void exact_attention(AttentionParams params, double* exact, double* exact_lse) {
  constexpr int kThreads = 256;
  __shared__ double weights[kThreads];
  __shared__ double reduced[kThreads];
  const int64_t token = blockIdx.x;
  const int64_t head = blockIdx.y;
  if (token >= params.step.counts->num_tokens) return;
  const int64_t row = params.step.token_row[token];
  const int64_t position = params.step.token_position[token];
  const int64_t kv_head = head / (params.heads.num_q_heads / params.heads.num_kv_heads);
  const int64_t head_dim = params.heads.head_dim;
  const KvCache& cache = params.cache;
  const int64_t scale_at = kv_head * cache.scale_stride;
  const double key_scale = cache.key_scale != nullptr ? cache.key_scale[scale_at] : 1.0;
  const double value_scale = cache.value_scale != nullptr ? cache.value_scale[scale_at] : 1.0;
  const int64_t first =
      params.window > 0 ? max(int64_t{0}, position + 1 - params.window) : int64_t{0};
  const double sink = params.sinks != nullptr ? params.sinks[head] : -INFINITY;

  const auto score = [&](int64_t key) {
    const int64_t at = key_at(params, row, key, kv_head);
    double dot = 0.0;
    for (int64_t d = 0; d < head_dim; ++d) {
      dot += load(params.q, params.io_dtype, token * params.q_stride + head * head_dim + d) *
             load(cache.data, cache.dtype, at + d);
    }
    dot *= key_scale * params.scale;
    return params.soft_cap > 0.0f ? params.soft_cap * tanh(dot / params.soft_cap) : dot;
  };

  double max_score = sink;
  for (int64_t key = first + threadIdx.x; key <= position; key += kThreads) {
    max_score = fmax(max_score, score(key));
  }
  reduced[threadIdx.x] = max_score;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      reduced[threadIdx.x] = fmax(reduced[threadIdx.x], reduced[threadIdx.x + half]);
    }
    __syncthreads();
  }
  max_score = reduced[0];

  double sum = exp(sink - max_score);
  double out[2] = {0.0, 0.0};  // dims threadIdx.x and + kThreads
  for (int64_t base = first; base <= position; base += kThreads) {
    __syncthreads();
    const int64_t key = base + threadIdx.x;
    weights[threadIdx.x] = key <= position ? exp(score(key) - max_score) : 0.0;
    __syncthreads();
    for (int64_t i = 0; i < kThreads && base + i <= position; ++i) {
      sum += weights[i];
      const int64_t at = key_at(params, row, base + i, kv_head) + cache.value_offset;
      for (int n = 0; n < 2; ++n) {
        const int64_t dim = threadIdx.x + n * kThreads;
        if (dim < head_dim) out[n] += weights[i] * load(cache.data, cache.dtype, at + dim);
      }
    }
  }
  const int64_t vector = token * params.heads.num_q_heads + head;
  for (int n = 0; n < 2; ++n) {
    const int64_t dim = threadIdx.x + n * kThreads;
    if (dim < head_dim) exact[vector * head_dim + dim] = out[n] / sum * value_scale;
  }
  if (threadIdx.x == 0) exact_lse[vector] = max_score + log(sum);
}

Buffer allocate(size_t bytes) { return value_of(Buffer::allocate(Device::kCuda, bytes)); }
size_t bytes_of(int64_t count, DType dtype) {
  return static_cast<size_t>(count) * dtype_size_bytes(dtype);
}

template <typename T>
std::vector<T> download(const Buffer& from, size_t count) {
  std::vector<T> to(count);
  check_cuda(cudaMemcpy(to.data(), from.data(), count * sizeof(T), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return to;
}

KvCache cache_of(const GpuShape& shape, int32_t num_pages) {
  KvCache cache{.dtype = shape.kv_dtype, .num_pages = num_pages, .page_size = shape.page_size};
  const int64_t padding = shape.stride_padding;
  if (shape.is_hnd) {
    cache.token_stride = shape.heads.head_dim + padding;
    cache.head_stride = shape.page_size * cache.token_stride + padding;
    cache.value_offset = shape.heads.num_kv_heads * cache.head_stride + padding;
  } else {
    cache.head_stride = shape.heads.head_dim + padding;
    cache.token_stride = shape.heads.num_kv_heads * cache.head_stride + padding;
    cache.value_offset = shape.page_size * cache.token_stride + padding;
  }
  cache.page_stride = 2 * cache.value_offset + padding + shape.page_padding;
  return cache;
}

test::TestStepOptions with_page_size(test::TestStepOptions options, int32_t page_size) {
  options.page_size = page_size;
  return options;
}

float float_at(const std::vector<char>& bytes, DType dtype, int64_t i) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return value;
  }
  uint16_t word;
  std::memcpy(&word, bytes.data() + i * 2, 2);
  return dtype == DType::kBF16 ? __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{word}))
                               : __half2float(__half(__half_raw{word}));
}

}  // namespace

void check_status(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

std::string to_string(const GpuShape& shape) {
  const HeadShape& heads = shape.heads;
  std::string text = std::to_string(heads.num_q_heads) + "/" + std::to_string(heads.num_kv_heads) +
                     "/" + std::to_string(heads.head_dim) + " " + dtype_name(shape.io_dtype) + "/" +
                     dtype_name(shape.kv_dtype) + (shape.is_hnd ? " HND" : " NHD") + " page " +
                     std::to_string(shape.page_size);
  if (shape.stride_padding > 0) text += " padded " + std::to_string(shape.stride_padding);
  if (shape.window > 0) text += " window " + std::to_string(shape.window);
  if (shape.soft_cap > 0) text += " soft cap";
  if (shape.sinks) text += " sinks";
  return text;
}

test::TestRow decode_row(int32_t seq_len) { return {.query_len = 1, .context_len = seq_len - 1}; }
test::TestRow verify_row(int32_t seq_len, int32_t query_len) {
  return {.query_len = query_len, .context_len = seq_len - query_len, .num_drafts = query_len - 1};
}
test::TestRow prefill_row(int32_t query_len, int32_t context_len) {
  return {.query_len = query_len, .context_len = context_len};
}

GpuAttentionProblem::GpuAttentionProblem(const GpuShape& shape,
                                         const std::vector<test::TestRow>& rows,
                                         test::TestStepOptions options)
    : shape_(shape),
      host_(rows, with_page_size(std::move(options), shape.page_size)),
      rows_(rows),
      arena_(value_of(metadata::StepArena::create(Device::kCuda, host_.view().limits))),
      stream_(value_of(CudaStream::create())) {
  const metadata::Limits& limits = arena_.limits();
  const HeadShape& heads = shape.heads;
  const int64_t width = static_cast<int64_t>(heads.num_q_heads) * heads.head_dim;
  const int64_t vectors = static_cast<int64_t>(limits.max_tokens) * heads.num_q_heads;
  // Enough for any rows that set_rows() may bring.
  const int32_t num_pages =
      std::max(host_.num_pages(), std::min(limits.max_rows * limits.max_pages_per_row, 4096) + 1);
  KvCache cache = cache_of(shape, num_pages);
  cache_ = allocate(bytes_of(cache.num_pages * cache.page_stride, cache.dtype));
  cache.data = cache_.data();
  if (shape.kv_dtype == DType::kFP8E4M3) {
    std::vector<float> scales;  // keys, then values
    for (int32_t i = 0; i < 2 * heads.num_kv_heads; ++i) {
      scales.push_back(0.5f + 0.125f * static_cast<float>(i % 9));
    }
    scales_ = allocate(scales.size() * sizeof(float));
    check_cuda(cudaMemcpy(scales_.data(), scales.data(), scales.size() * sizeof(float),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
    cache.key_scale = scales_.as<float>();
    cache.value_scale = scales_.as<float>() + heads.num_kv_heads;
    cache.scale_stride = shape.scale_per_head ? 1 : 0;
  }
  if (shape.sinks) {
    std::vector<float> sinks;
    for (int32_t i = 0; i < heads.num_q_heads; ++i) {
      sinks.push_back(-2.0f + 0.5f * static_cast<float>(i % 11));
    }
    sinks_ = allocate(sinks.size() * sizeof(float));
    check_cuda(cudaMemcpy(sinks_.data(), sinks.data(), sinks.size() * sizeof(float),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  const int64_t stride = width + shape.stride_padding;
  q_ = allocate(bytes_of(limits.max_tokens * stride, shape.io_dtype));
  out_ = allocate(bytes_of(limits.max_tokens * stride, shape.io_dtype));
  lse_ = allocate(static_cast<size_t>(vectors) * sizeof(float));
  exact_ = allocate(static_cast<size_t>(vectors * heads.head_dim) * sizeof(double));
  exact_lse_ = allocate(static_cast<size_t>(vectors) * sizeof(double));
  params_ = {.heads = heads,
             .io_dtype = shape.io_dtype,
             .q = q_.data(),
             .q_stride = stride,
             .out = out_.data(),
             .out_stride = stride,
             .lse = shape.lse ? lse_.as<float>() : nullptr,
             .cache = cache,
             .scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim)),
             .window = shape.window,
             .soft_cap = shape.soft_cap,
             .sinks = shape.sinks ? sinks_.as<float>() : nullptr,
             .step = arena_.view()};
  upload();
}

void GpuAttentionProblem::set_rows(const std::vector<test::TestRow>& rows) {
  host_.set_rows(rows);
  if (host_.num_pages() > params_.cache.num_pages) throw std::runtime_error("too many pages");
  rows_ = rows;
  upload();
}

void GpuAttentionProblem::upload() {
  const auto* from = reinterpret_cast<const char*>(host_.arena().input().num_rows);
  const auto* to = reinterpret_cast<const char*>(host_.arena().arrays().counts);
  cudaStream_t stream = stream_.handle();
  check_cuda(cudaMemcpyAsync(arena_.input().num_rows, from, static_cast<size_t>(to - from),
                             cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  check_status(metadata::launch_build(stream, arena_.input(), arena_.arrays()));
  if (split_.size_bytes() > 0) make_split(split_shape_);
  // All ones is NaN in every dtype of a cache.
  check_cuda(cudaMemsetAsync(cache_.data(), 0xff, cache_.size_bytes(), stream), "cudaMemsetAsync");
  check_cuda(cudaMemsetAsync(q_.data(), 0xff, q_.size_bytes(), stream), "cudaMemsetAsync");
  poison_outputs();
  const auto num_rows = static_cast<uint32_t>(rows_.size());
  const auto max_tokens = static_cast<uint32_t>(arena_.limits().max_tokens);
  if (num_rows > 0) fill_cache<<<dim3(1024, num_rows), 128, 0, stream>>>(params_);
  fill_queries<<<max_tokens, 128, 0, stream>>>(params_, shape_.magnitude);
  check_cuda(cudaGetLastError(), "launch of fill_queries");
  check_status(stream_.synchronize());
}

void GpuAttentionProblem::poison_outputs() {
  check_cuda(cudaMemsetAsync(out_.data(), 0xff, out_.size_bytes(), stream_.handle()),
             "cudaMemsetAsync");
  check_cuda(cudaMemsetAsync(lse_.data(), 0xff, lse_.size_bytes(), stream_.handle()),
             "cudaMemsetAsync");
}

metadata::SplitView GpuAttentionProblem::make_split(const metadata::SplitShape& split) {
  const metadata::Limits& limits = arena_.limits();
  if (split_.size_bytes() == 0) {
    split_ = allocate(static_cast<size_t>(metadata::split_arrays_bytes(limits, split)));
  }
  split_shape_ = split;
  const metadata::SplitArrays arrays = metadata::split_arrays_in(split_.data(), limits, split);
  check_status(metadata::launch_build_split(stream_.handle(), arena_.view(), split, arrays));
  return metadata::split_view(arena_.view(), split, arrays);
}

std::vector<char> GpuAttentionProblem::output_bytes() {
  check_status(stream_.synchronize());
  return download<char>(out_, out_.size_bytes());
}

GpuAttentionProblem::Exact GpuAttentionProblem::exact() {
  const auto max_tokens = static_cast<uint32_t>(arena_.limits().max_tokens);
  const auto num_heads = static_cast<uint32_t>(shape_.heads.num_q_heads);
  exact_attention<<<dim3(max_tokens, num_heads), 256, 0, stream_.handle()>>>(
      params_, exact_.as<double>(), exact_lse_.as<double>());
  check_cuda(cudaGetLastError(), "launch of exact_attention");
  check_status(stream_.synchronize());
  return {download<double>(exact_, exact_.size_bytes() / sizeof(double)),
          download<double>(exact_lse_, exact_lse_.size_bytes() / sizeof(double))};
}

std::string GpuAttentionProblem::check(RowSet rows, double tolerance) {
  const StepView& step = host_.view();
  host_.rebuild();
  const int64_t max_tokens = step.limits.max_tokens;
  const int64_t num_heads = shape_.heads.num_q_heads;
  const int64_t head_dim = shape_.heads.head_dim;
  const std::vector<char> out = output_bytes();
  const auto lse = download<float>(lse_, static_cast<size_t>(max_tokens * num_heads));
  const auto [exact, exact_lse] = this->exact();

  std::string worst;
  double worst_error = tolerance;
  const auto report = [&](double error, int64_t token, int64_t head, const std::string& what) {
    if (error <= worst_error) return;
    worst_error = std::isnan(error) ? INFINITY : error;
    const int32_t row = step.token_row[token];
    worst =
        to_string(shape_) + ": token " + std::to_string(token) + " of row " + std::to_string(row) +
        (row < 0 ? ""
                 : " (context " + std::to_string(step.context_len[row]) + ", query " +
                       std::to_string(step.query_len[row]) + ")") +
        ", head " + std::to_string(head) + ": " + what + " (error " + std::to_string(error) + ")";
  };
  for (int64_t token = 0; token < max_tokens; ++token) {
    const int32_t row = step.token_row[token];
    const RowKind kind = row < 0 ? RowKind::kPadding : step.kind[row];
    const bool is_prefill = kind == RowKind::kPrefill;
    const bool written = rows == RowSet::kAll || (rows == RowSet::kPrefill) == is_prefill;
    for (int64_t head = 0; head < num_heads; ++head) {
      const int64_t vector = token * num_heads + head;
      double error = 0.0;
      double norm = 0.0;
      double worst_element = 0.0;
      bool zero = true;
      bool untouched = true;
      for (int64_t d = 0; d < head_dim; ++d) {
        const double value =
            float_at(out, shape_.io_dtype, token * params_.out_stride + head * head_dim + d);
        const double want = row < 0 ? 0.0 : exact[static_cast<size_t>(vector * head_dim + d)];
        error += (value - want) * (value - want);
        norm += want * want;
        worst_element = std::max(worst_element, std::abs(value - want) / (1.0 + std::abs(want)));
        zero = zero && value == 0.0;
        untouched = untouched && std::isnan(value);
      }
      if (!written) {
        if (!untouched) report(INFINITY, token, head, "written, but not this kernel's row");
        continue;
      }
      const float got_lse = lse[static_cast<size_t>(vector)];
      if (row < 0) {
        if (!zero) report(INFINITY, token, head, "padding is not zero");
        if (shape_.lse && got_lse != -INFINITY) report(INFINITY, token, head, "padding has an lse");
        continue;
      }
      const double relative = std::sqrt(error / norm);
      report(std::isnan(relative) ? INFINITY : relative, token, head, "out is off");
      report(worst_element, token, head, "an element of out is off");
      if (!shape_.lse) continue;
      const double want = exact_lse[static_cast<size_t>(vector)];
      const double difference = std::abs(got_lse - want) / std::max(1.0, std::abs(want));
      report(std::isnan(difference) ? INFINITY : difference, token, head,
             "lse is " + std::to_string(got_lse) + ", exact " + std::to_string(want));
    }
  }
  return worst;
}

}  // namespace headrace::attention
