// SPDX-License-Identifier: Apache-2.0
// What writes into the paged cache on the GPU, and merge_state, against the CPU's ops (which have
// their own tests against fp64): every byte of the cache and of q_out, those that nobody may touch
// included.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "attention/attention.h"
#include "attention/cuda/kv_write.h"
#include "headrace/merge_state.h"
#include "ops/backend.h"
#include "ops/cuda/qkv_rope_write.h"
#include "ops/rope.h"
#include "tensor/convert.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"
#include "tests/gpu/gpu_step.h"
#include "tests/gpu/pairwise.h"

namespace headrace {
namespace {

using attention::check_status;
using attention::value_of;
using test::TestRow;

constexpr int kPoison = 0xC3;  // finite in every type, so that a sum with it would show

Buffer on_device(const void* data, size_t size_bytes) {
  Buffer buffer = value_of(Buffer::allocate(Device::kCuda, std::max<size_t>(size_bytes, 16)));
  check_status(cuda_status(cudaMemcpy(buffer.data(), data, size_bytes, cudaMemcpyHostToDevice),
                           "cudaMemcpy"));
  // From pageable memory the call may return before the last bytes have arrived.
  check_status(cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return buffer;
}
std::vector<unsigned char> on_host(const Buffer& buffer) {
  std::vector<unsigned char> bytes(buffer.size_bytes());
  check_status(cuda_status(
      cudaMemcpy(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy"));
  return bytes;
}

std::vector<float> normals(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// fp8 e4m3 as the CPU sees it.
float from_fp8(unsigned char byte) {
  const int exponent = byte >> 3 & 15;
  const float mantissa = static_cast<float>(byte & 7) / 8.0f;
  const float size =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return byte & 0x80 ? -size : size;
}
float element(const unsigned char* data, DType dtype, int64_t i) {
  if (dtype == DType::kFP8E4M3) return from_fp8(data[i]);
  float value;
  widen(data, dtype, i, 1, &value);
  return value;
}
// What rounding to the type may move a value by, and as much for sums in another order.
float tolerance(DType dtype, float value) {
  const float relative = dtype == DType::kFP8E4M3 ? 0x1p-4f
                         : dtype == DType::kBF16  ? 0x1p-8f
                         : dtype == DType::kF16   ? 0x1p-11f
                                                  : 4e-6f;
  return 1.1f * relative * std::abs(value) + (dtype == DType::kFP8E4M3 ? 0x1p-9f : 2e-6f);
}

struct Case {
  attention::HeadShape heads;
  DType io = DType::kBF16;
  DType kv = DType::kBF16;
  int32_t page_size = 16;
  bool is_hnd = false;
  int32_t padding = 0;  // elements added to all strides
  int32_t rotary_dim = 64;
  bool gate = false;
  bool norm = false;
  bool scales = false;
  bool programmatic = false;
};
std::string describe(const Case& c) {
  return std::string(dtype_name(c.io)) + " KV " + dtype_name(c.kv) + " heads " +
         std::to_string(c.heads.num_q_heads) + "/" + std::to_string(c.heads.num_kv_heads) + " D " +
         std::to_string(c.heads.head_dim) + " page " + std::to_string(c.page_size) +
         (c.is_hnd ? " HND" : " NHD") + " padding " + std::to_string(c.padding) + " rotary " +
         std::to_string(c.rotary_dim) + (c.gate ? " gate" : "") + (c.norm ? " norm" : "") +
         (c.scales ? " scales" : "") + (c.programmatic ? " programmatic" : "");
}

attention::KvCache cache_of(const Case& c, int32_t num_pages) {
  attention::KvCache cache{.dtype = c.kv, .num_pages = num_pages, .page_size = c.page_size};
  const int64_t dim = c.heads.head_dim + c.padding;
  cache.head_stride = c.is_hnd ? c.page_size * dim : dim;
  cache.token_stride = c.is_hnd ? dim : c.heads.num_kv_heads * dim;
  cache.value_offset = c.page_size * c.heads.num_kv_heads * dim + c.padding;
  cache.page_stride = 2 * cache.value_offset + c.padding;
  return cache;
}

// A cache on the CPU in fp32 and one on the device in its own type, both poisoned.
struct Caches {
  Caches(const Case& c, int32_t num_pages) : expected(cache_of(c, num_pages)), actual(expected) {
    const auto elements = static_cast<size_t>(num_pages * expected.page_stride);
    values.assign(elements, std::nanf(""));
    expected.data = values.data();
    expected.dtype = DType::kF32;
    const std::vector<unsigned char> poison(elements * dtype_size_bytes(c.kv), kPoison);
    device = on_device(poison.data(), poison.size());
    actual.data = device.data();
    if (c.scales) {
      std::vector<float> both(static_cast<size_t>(2 * c.heads.num_kv_heads));
      for (size_t i = 0; i < both.size(); ++i) both[i] = 0.5f + 0.25f * static_cast<float>(i % 5);
      scales = on_device(both.data(), both.size() * sizeof(float));
      actual.key_scale = scales.as<float>();
      actual.value_scale = scales.as<float>() + c.heads.num_kv_heads;
      actual.scale_stride = 1;
      host_scales = both;
    }
  }

  // Empty when the device's cache holds what the CPU's does, and else what it held before.
  std::string difference(const Case& c) const {
    const std::vector<unsigned char> bytes = on_host(device);
    const size_t size = dtype_size_bytes(c.kv);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        for (size_t b = 0; b < size; ++b) {
          if (bytes[i * size + b] != kPoison) return "wrote element " + std::to_string(i);
        }
        continue;
      }
      float got = element(bytes.data(), c.kv, static_cast<int64_t>(i));
      if (c.scales) got *= scale_of(c, static_cast<int64_t>(i));
      if (!(std::abs(got - values[i]) <= tolerance(c.kv, values[i]))) {
        return "element " + std::to_string(i) + " is " + std::to_string(got) + ", not " +
               std::to_string(values[i]);
      }
    }
    return "";
  }
  float scale_of(const Case& c, int64_t i) const {
    const int64_t in_page = i % expected.page_stride;
    const bool is_value = in_page >= expected.value_offset;
    const int64_t in_half = in_page - (is_value ? expected.value_offset : 0);
    const int64_t head = c.is_hnd ? in_half / expected.head_stride
                                  : in_half % expected.token_stride / expected.head_stride;
    return host_scales[static_cast<size_t>(head + (is_value ? c.heads.num_kv_heads : 0))];
  }

  attention::KvCache expected;
  attention::KvCache actual;
  std::vector<float> values;
  Buffer device, scales;
  std::vector<float> host_scales;
};

// A tensor of random values in its type, in fp32 on the CPU and as it is on the device.
struct Tensor {
  Tensor(size_t count, DType dtype, uint32_t seed, size_t count_valid)
      : values(normals(count, seed)) {
    for (size_t i = count_valid; i < count; ++i) values[i] = std::nanf("");
    std::vector<unsigned char> bytes(count * dtype_size_bytes(dtype));
    narrow(values.data(), static_cast<int64_t>(count), bytes.data(), dtype, 0);
    widen(bytes.data(), dtype, 0, static_cast<int64_t>(count), values.data());
    device = on_device(bytes.data(), bytes.size());
  }
  std::vector<float> values;
  Buffer device;
};

const std::vector<TestRow> kRows = {{.query_len = 1, .context_len = 1000},
                                    {},
                                    {.query_len = 40, .context_len = 5},
                                    {.query_len = 1, .context_len = 15},
                                    {.query_len = 1, .context_len = 16},
                                    {.query_len = 3, .context_len = 63, .num_drafts = 2},
                                    {},
                                    {.query_len = 17},
                                    {.query_len = 1}};

std::string run_rope_write(const Case& c, const std::vector<TestRow>& rows) {
  test::GpuStep step(rows, {.page_size = c.page_size, .max_tokens = 80});
  const int64_t dim = c.heads.head_dim;
  const int64_t q_step = c.gate ? 2 * dim : dim;
  const int64_t stride = c.heads.num_q_heads * q_step + 2 * c.heads.num_kv_heads * dim + c.padding;
  const auto num_tokens = static_cast<size_t>(step.host().view().counts->num_tokens);
  const Tensor projection(static_cast<size_t>(80 * stride), c.io, 1,
                          num_tokens * static_cast<size_t>(stride));
  const Tensor weights(static_cast<size_t>(2 * dim), DType::kF32, 2, static_cast<size_t>(2 * dim));
  const std::vector<float> inv_freq = ops::rope_default_inv_freq(10000.0, c.rotary_dim);
  const Buffer freq = on_device(inv_freq.data(), inv_freq.size() * sizeof(float));
  Caches caches(c, step.host().num_pages());
  const auto q_elements = static_cast<size_t>(80 * c.heads.num_q_heads * dim);
  std::vector<float> q_expected(q_elements, std::nanf(""));
  const std::vector<unsigned char> poison(q_elements * dtype_size_bytes(c.io), kPoison);
  Buffer q_out = on_device(poison.data(), poison.size());

  ops::QkvRopeWriteParams params{
      .heads = c.heads,
      .projection = projection.values.data(),
      .projection_stride = stride,
      .has_gate = c.gate,
      .norm_weight_offset = 1.0f,
      .rope = {.inv_freq = inv_freq.data(), .rotary_dim = c.rotary_dim, .attention_factor = 1.25f},
      .q_out = q_expected.data(),
      .cache = caches.expected,
      .step = step.host().view()};
  if (c.norm) {
    params.q_norm_weight = weights.values.data();
    params.k_norm_weight = weights.values.data() + dim;
  }
  ops::cpu_backend().qkv_rope_write(step.host().stream(), params);

  params.io_dtype = c.io;
  params.projection = projection.device.data();
  if (c.norm) {
    params.q_norm_weight = weights.device.as<float>();
    params.k_norm_weight = weights.device.as<float>() + dim;
  }
  params.rope.inv_freq = freq.as<float>();
  params.q_out = q_out.data();
  params.cache = caches.actual;
  params.step = step.view();
  const ops::QkvRopeWriteLaunch launch = value_of(ops::prepare_qkv_rope_write(
      params, {.programmatic = c.programmatic, .early_metadata = c.programmatic}));
  check_status(ops::launch_qkv_rope_write(step.stream().handle(), launch));
  check_status(step.stream().synchronize());

  const std::vector<unsigned char> q = on_host(q_out);
  for (size_t i = 0; i < q_elements; ++i) {
    const bool written = i < num_tokens * static_cast<size_t>(c.heads.num_q_heads * dim);
    if (!written) {
      if (q[i * dtype_size_bytes(c.io)] != kPoison) return "wrote q of a padding token";
      continue;
    }
    const float got = element(q.data(), c.io, static_cast<int64_t>(i));
    if (!(std::abs(got - q_expected[i]) <= tolerance(c.io, q_expected[i]))) {
      return "q element " + std::to_string(i) + " is " + std::to_string(got) + ", not " +
             std::to_string(q_expected[i]);
    }
  }
  return caches.difference(c);
}

TEST(QkvRopeWriteGpu, EveryPairOfOptions) {
  constexpr DType kIo[] = {DType::kBF16, DType::kF16, DType::kBF16, DType::kF16,
                           DType::kF32,  DType::kF32, DType::kBF16};
  constexpr DType kKv[] = {DType::kBF16, DType::kF16,  DType::kFP8E4M3, DType::kFP8E4M3,
                           DType::kF32,  DType::kBF16, DType::kF32};
  constexpr int32_t kDims[] = {64, 128, 256, 16, 96, 512};
  constexpr attention::HeadShape kHeads[] = {{1, 1, 0}, {5, 1, 0}, {32, 8, 0}, {6, 3, 0}};
  constexpr int32_t kPages[] = {1, 8, 16, 256};
  for (const auto& choice : test::pairwise_choices({7, 6, 4, 4, 2, 3, 3, 2, 2, 2})) {
    Case c;
    c.io = kIo[choice[0]];
    c.kv = kKv[choice[0]];
    c.heads = kHeads[choice[2]];
    c.heads.head_dim = kDims[choice[1]];
    c.page_size = kPages[choice[3]];
    c.is_hnd = choice[4] == 1;
    c.padding = choice[5] == 0 ? 0 : choice[5] == 1 ? 16 : 3;
    c.rotary_dim = choice[6] == 0 ? c.heads.head_dim : choice[6] == 1 ? c.heads.head_dim / 4 : 6;
    c.gate = choice[7] == 1;
    c.norm = choice[8] == 1;
    c.programmatic = choice[9] == 1;
    c.scales = c.kv == DType::kFP8E4M3 && choice[8] == 1;
    EXPECT_EQ(run_rope_write(c, kRows), "") << describe(c);
  }
}

TEST(QkvRopeWriteGpu, NoTokensNoWrites) {
  const Case c{.heads = {8, 2, 128}};
  EXPECT_EQ(run_rope_write(c, {{}, {}}), "");
}

TEST(KvWriteGpu, TypesStridesAndPages) {
  constexpr DType kIo[] = {DType::kBF16, DType::kF16, DType::kBF16, DType::kF32, DType::kF32};
  constexpr DType kKv[] = {DType::kBF16, DType::kF16, DType::kFP8E4M3, DType::kF32, DType::kBF16};
  constexpr int32_t kDims[] = {64, 128, 256, 24, 7};
  constexpr int32_t kPages[] = {1, 8, 16, 256};
  for (const auto& choice : test::pairwise_choices({5, 5, 4, 2, 3})) {
    Case c{.heads = {6, 3, kDims[choice[1]]}, .io = kIo[choice[0]], .kv = kKv[choice[0]]};
    c.page_size = kPages[choice[2]];
    c.is_hnd = choice[3] == 1;
    c.padding = choice[4] == 0 ? 0 : choice[4] == 1 ? 16 : 3;
    c.scales = c.kv == DType::kFP8E4M3;
    test::GpuStep step(kRows, {.page_size = c.page_size, .max_tokens = 80});
    const int64_t stride = c.heads.num_kv_heads * c.heads.head_dim + c.padding;
    const auto num_tokens = static_cast<size_t>(step.host().view().counts->num_tokens);
    const auto count = static_cast<size_t>(80 * stride);
    const Tensor k(count, c.io, 1, num_tokens * static_cast<size_t>(stride));
    const Tensor v(count, c.io, 2, num_tokens * static_cast<size_t>(stride));
    Caches caches(c, step.host().num_pages());
    attention::KvWriteParams params{.heads = c.heads, .io_dtype = c.io};
    params.k_stride = stride;
    params.v_stride = stride;
    params.k = k.values.data();
    params.v = v.values.data();
    // The CPU's op takes no odd head dims: its rule is simple enough to be written out.
    const metadata::StepView& view = step.host().view();
    for (int64_t t = 0; t < view.counts->num_tokens; ++t) {
      const int64_t slot = view.slot_mapping[t];
      for (int64_t h = 0; h < c.heads.num_kv_heads; ++h) {
        for (int64_t d = 0; d < c.heads.head_dim; ++d) {
          const int64_t at = slot / c.page_size * caches.expected.page_stride +
                             slot % c.page_size * caches.expected.token_stride +
                             h * caches.expected.head_stride + d;
          const int64_t from = t * stride + h * c.heads.head_dim + d;
          caches.values[static_cast<size_t>(at)] = k.values[static_cast<size_t>(from)];
          caches.values[static_cast<size_t>(at + caches.expected.value_offset)] =
              v.values[static_cast<size_t>(from)];
        }
      }
    }
    params.k = k.device.data();
    params.v = v.device.data();
    params.cache = caches.actual;
    params.step = step.view();
    check_status(attention::launch_kv_write(step.stream().handle(), params));
    check_status(step.stream().synchronize());
    EXPECT_EQ(caches.difference(c), "") << describe(c);
  }
}

TEST(MergeStateGpu, EqualsTheHost) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int32_t head_dim : {1, 7, 64, 128, 256, 264}) {
      constexpr int64_t kVectors = 3001;
      const auto count = static_cast<size_t>(kVectors * head_dim);
      Tensor a(count, dtype, 1, count);
      Tensor b(count, dtype, 2, count);
      std::vector<float> lse_a = normals(kVectors, 3);
      std::vector<float> lse_b = normals(kVectors, 4);
      for (size_t i = 0; i < kVectors; i += 5) lse_a[i] = kNone;
      for (size_t i = 0; i < kVectors; i += 7) lse_b[i] = kNone;
      lse_a[1] = 3e5f;
      const Buffer device_lse_a = on_device(lse_a.data(), kVectors * sizeof(float));
      Buffer device_lse_b = on_device(lse_b.data(), kVectors * sizeof(float));
      // In place over b, on both.
      check_status(merge_state_on_device({.o_a = a.device.data(),
                                          .lse_a = device_lse_a.as<float>(),
                                          .o_b = b.device.data(),
                                          .lse_b = device_lse_b.as<float>(),
                                          .o = b.device.data(),
                                          .lse = device_lse_b.as<float>(),
                                          .dtype = dtype,
                                          .num_vectors = kVectors,
                                          .head_dim = head_dim},
                                         nullptr));
      check_status(merge_state_on_host({.o_a = a.values.data(),
                                        .lse_a = lse_a.data(),
                                        .o_b = b.values.data(),
                                        .lse_b = lse_b.data(),
                                        .o = b.values.data(),
                                        .lse = lse_b.data(),
                                        .num_vectors = kVectors,
                                        .head_dim = head_dim}));
      const std::vector<unsigned char> o = on_host(b.device);
      const std::vector<unsigned char> lse = on_host(device_lse_b);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(element(o.data(), dtype, static_cast<int64_t>(i)), b.values[i],
                    tolerance(dtype, b.values[i]));
      }
      for (size_t i = 0; i < kVectors; ++i) {
        const float got = element(lse.data(), DType::kF32, static_cast<int64_t>(i));
        if (lse_b[i] == kNone) {
          ASSERT_EQ(got, kNone);
        } else {
          ASSERT_NEAR(got, lse_b[i], 1e-6f * std::max(1.0f, std::abs(lse_b[i])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace
