// SPDX-License-Identifier: Apache-2.0
// Kernels of a chain of layers that overlap (programmatic dependent launch, pages and metadata read
// early) give the same bits as kernels that follow one another, also when warps are held back
// before their last store. racecheck sees shared memory only; this is the test of global memory.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "attention/cuda/decode.h"
#include "attention/cuda/decode_instances.h"
#include "metadata/cuda/build_kernel.h"
#include "ops/cuda/qkv_rope_write.h"
#include "ops/cuda/qkv_rope_write_kernel.cuh"
#include "ops/rope.h"
#include "tensor/cuda/launch.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/gpu_step.h"
#include "tests/support/random_steps.h"

namespace headrace {
namespace {

using attention::check_status;
using attention::value_of;
using test::Random;
using test::TestRow;

constexpr int kLayers = 4;
constexpr attention::HeadShape kHeads{.num_q_heads = 8, .num_kv_heads = 2, .head_dim = 128};
constexpr int32_t kQueryElements = 8 * 128;
constexpr int32_t kProjection = (8 + 2 * 2) * 128;
constexpr int32_t kMaxRows = 24;
constexpr int32_t kMaxTokens = 64;
constexpr int32_t kNumPages = 2600;

__device__ float noise(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<float>(x >> 40) * 0x1p-23f - 1.0f;
}

__global__ void fill_with_noise(__nv_bfloat16* data, int64_t count, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    data[i] = __float2bfloat16(noise(seed + static_cast<uint64_t>(i)));
  }
}

// Stands for everything between two layers' attention: a block a token makes the projection of the
// next layer from the output of this one. A broken one reads before it may.
template <bool kTooEarly>
__global__ void next_projection(const __nv_bfloat16* out, __nv_bfloat16* projection, int layer,
                                const metadata::Counts* counts) {
  if (!kTooEarly) ptx::wait_for_dependencies();
  const auto token = static_cast<int64_t>(blockIdx.x);
  float values[kProjection / 256];
  for (int i = 0; i < kProjection / 256; ++i) {
    const int at = i * 256 + static_cast<int>(threadIdx.x);
    const float from =
        out == nullptr ? 0.0f : __bfloat162float(out[token * kQueryElements + at % kQueryElements]);
    values[i] = 0.5f * from + noise(static_cast<uint64_t>(at * 64 + layer));
  }
  if (kTooEarly) ptx::wait_for_dependencies();
  ptx::launch_dependents();
  if (token >= counts->num_tokens) return;
  race_delay<true>();
  for (int i = 0; i < kProjection / 256; ++i) {
    projection[token * kProjection + i * 256 + threadIdx.x] = __float2bfloat16(values[i]);
  }
}

// counts[0] += differing words.
__global__ void compare(const uint32_t* a, const uint32_t* b, int64_t words, int* count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < words;
       i += int64_t{gridDim.x} * blockDim.x) {
    if (a[i] != b[i]) atomicAdd(count, 1);
  }
}

struct ChainOptions {
  int32_t page_size = 16;
  bool programmatic = false;
  bool broken = false;
};

// A step of kLayers layers with state of its own: build, then for each layer projection, KV write
// with RoPE, decode attention and merge, as one graph.
class Chain {
 public:
  explicit Chain(const ChainOptions& options)
      : step_({TestRow{}}, {.page_size = options.page_size,
                            .max_rows = kMaxRows,
                            .max_tokens = kMaxTokens,
                            .max_pages_per_row = 256,
                            .num_workers = 66,
                            .poison = false}),
        outputs_(allocate(int64_t{kLayers} * kMaxTokens * kQueryElements * 2)),
        caches_(allocate(int64_t{kLayers} * cache_elements(options) * 2)),
        projection_(allocate(kMaxTokens * kProjection * 2)),
        query_(allocate(kMaxTokens * kQueryElements * 2)),
        inv_freq_(allocate(64 * sizeof(float))),
        workspace_(allocate(attention::decode_workspace_bytes(
            kHeads, step_.view().limits, metadata::split_view(step_.view()).shape, 4))) {
    const std::vector<float> frequencies = ops::rope_default_inv_freq(10000.0, 128);
    cudaMemcpy(inv_freq_.data(), frequencies.data(), 64 * sizeof(float), cudaMemcpyHostToDevice);
    fill_with_noise<<<512, 256>>>(caches_.as<__nv_bfloat16>(), kLayers * cache_elements(options),
                                  77);
    cudaDeviceSynchronize();
    check_status(step_.stream().begin_capture());
    cudaStream_t stream = step_.stream().handle();
    check_status(metadata::launch_build(stream, step_.arena().input(), step_.arena().arrays()));
    for (int layer = 0; layer < kLayers; ++layer) submit_layer(stream, layer, options);
    graph_ = std::make_unique<CudaGraph>(value_of(step_.stream().end_capture()));
  }

  void run(const std::vector<TestRow>& rows) {
    step_.set_rows(rows, /*build=*/false);
    ASSERT_LE(step_.host().num_pages(), kNumPages);
    cudaMemsetAsync(outputs_.data(), 0xff, outputs_.size_bytes(), step_.stream().handle());
    check_status(step_.stream().launch(*graph_));
    check_status(step_.stream().synchronize());
  }

  // Words of outputs and caches that differ.
  int differences(const Chain& other) const {
    int* count = nullptr;
    cudaMallocManaged(&count, sizeof(int));
    *count = 0;
    for (const auto& [a, b] : {std::pair{&outputs_, &other.outputs_}, {&caches_, &other.caches_}}) {
      compare<<<512, 256>>>(a->as<uint32_t>(), b->as<uint32_t>(),
                            static_cast<int64_t>(a->size_bytes() / 4), count);
    }
    check_status(cuda_status(cudaDeviceSynchronize(), "compare"));
    const int result = *count;
    cudaFree(count);
    return result;
  }

 private:
  static Buffer allocate(int64_t size_bytes) {
    return value_of(Buffer::allocate_zeroed(Device::kCuda, static_cast<size_t>(size_bytes)));
  }
  static int64_t cache_elements(const ChainOptions& options) {
    return int64_t{kNumPages} * 2 * options.page_size * kHeads.num_kv_heads * kHeads.head_dim;
  }

  void submit_layer(cudaStream_t stream, int layer, const ChainOptions& options) {
    auto* outputs = outputs_.as<__nv_bfloat16>();
    const int64_t out_elements = int64_t{kMaxTokens} * kQueryElements;
    const __nv_bfloat16* previous = layer == 0 ? nullptr : outputs + (layer - 1) * out_elements;
    check_status(launch_kernel(
        stream,
        {.grid = dim3(kMaxTokens), .block = dim3(256), .programmatic = options.programmatic},
        "projection", options.broken ? next_projection<true> : next_projection<false>, previous,
        projection_.as<__nv_bfloat16>(), layer, step_.view().counts));

    attention::KvCache cache{.data = caches_.as<__nv_bfloat16>() + layer * cache_elements(options),
                             .dtype = DType::kBF16,
                             .num_pages = kNumPages,
                             .page_size = options.page_size};
    cache.head_stride = 128;
    cache.token_stride = 256;
    cache.value_offset = options.page_size * cache.token_stride;
    cache.page_stride = 2 * cache.value_offset;
    ops::QkvRopeWriteLaunch write = value_of(ops::prepare_qkv_rope_write(
        {.heads = kHeads,
         .io_dtype = DType::kBF16,
         .projection = projection_.data(),
         .projection_stride = kProjection,
         .rope = {.inv_freq = inv_freq_.as<float>(), .rotary_dim = 128},
         .q_out = query_.data(),
         .cache = cache,
         .step = step_.view()},
        {.programmatic = options.programmatic, .early_metadata = true}));
    ASSERT_TRUE(write.config.vectors);
    write.kernel = ops::qkv_rope_write_kernel<__nv_bfloat16, __nv_bfloat16, 128, true>;
    check_status(ops::launch_qkv_rope_write(stream, write));

    attention::AttentionParams attend{.heads = kHeads, .io_dtype = DType::kBF16};
    attend.q = query_.data();
    attend.q_stride = kQueryElements;
    attend.out = outputs + layer * out_elements;
    attend.out_stride = kQueryElements;
    attend.cache = cache;
    attend.scale = 0.088f;
    attend.step = step_.view();
    attention::DecodeLaunch decode =
        value_of(attention::prepare_decode(attend, {.split = metadata::split_view(step_.view()),
                                                    .max_query_len = 4,
                                                    .workspace = workspace_.data(),
                                                    .programmatic = options.programmatic,
                                                    .early_pages = true}));
    using attention::DecodeTraits;
    using attention::KvLoader;
    using Copy = DecodeTraits<__nv_bfloat16, __nv_bfloat16, 128, 2, KvLoader::kTensorCopy, true>;
    using Gather = DecodeTraits<__nv_bfloat16, __nv_bfloat16, 128, 2, KvLoader::kGather, true>;
    const bool copies = decode.config.load == attention::KvLoad::kTensorCopy;
    ASSERT_EQ(decode.config.query_tiles, 2);
    decode.decode = copies ? attention::decode_kernel<Copy> : attention::decode_kernel<Gather>;
    decode.combine = attention::combine_kernel<__nv_bfloat16, 128, true>;
    check_status(
        cuda_status(cudaFuncSetAttribute(decode.decode, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         decode.shared_bytes),
                    "cudaFuncSetAttribute"));
    check_status(attention::launch_decode(stream, decode));
  }

  test::GpuStep step_;
  Buffer outputs_, caches_, projection_, query_, inv_freq_, workspace_;
  std::unique_ptr<CudaGraph> graph_;
};

// Sequences that grow from step to step, end and join; empty rows before and between them.
class Rows {
 public:
  explicit Rows(uint64_t seed) : random_(seed), lengths_(kMaxRows, 0) {}
  std::vector<TestRow> next() {
    std::vector<TestRow> rows;
    for (int32_t& length : lengths_) {
      if (length == 0 && random_.one_in(4)) length = random_.in(2, random_.one_in(5) ? 1500 : 200);
      if (length > 0 && random_.one_in(30)) length = 0;
      const int32_t query_len = length > 8 && random_.one_in(3) ? 2 : 1;
      rows.push_back(length == 0      ? TestRow{}
                     : query_len == 1 ? attention::decode_row(length)
                                      : attention::verify_row(length, query_len));
      if (length > 0) length = std::min(length + query_len, 1500);
    }
    return rows;
  }

 private:
  Random random_;
  std::vector<int32_t> lengths_;
};

// First replay after which two chains differ, or −1.
int first_difference(const ChainOptions& a, const ChainOptions& b, int replays) {
  Chain first(a);
  Chain second(b);
  if (first.differences(second) != 0) return 0;
  Rows rows(5);
  for (int replay = 1; replay <= replays; ++replay) {
    const std::vector<TestRow> next = rows.next();
    first.run(next);
    second.run(next);
    if (first.differences(second) != 0) return replay;
  }
  return -1;
}

TEST(RaceGpu, OverlappingKernelsGiveTheSameBits) {
  for (const int32_t page_size : {16, 8}) {
    EXPECT_EQ(first_difference({.page_size = page_size},
                               {.page_size = page_size, .programmatic = true}, 1000),
              -1);
  }
}

// The test sees a kernel that reads before its dependencies are met.
TEST(RaceGpu, NoticesAKernelThatReadsTooEarly) {
  EXPECT_NE(first_difference({}, {.programmatic = true, .broken = true}, 50), -1);
}

}  // namespace
}  // namespace headrace
