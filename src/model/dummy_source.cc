// SPDX-License-Identifier: Apache-2.0
// Seeded weights from the config alone: what `--load-format dummy` runs on. Every element is a
// function of (seed, tensor name, index), so that shapes may be cut in any order.
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/float16.h"
#include "model/tensor_source.h"
#include "tensor/buffer.h"

namespace headrace::model {
namespace {

// Uniform in [center − spread, center + spread].
struct Distribution {
  float center = 0.0f;
  float spread = 0.0f;
};

Distribution distribution(const ExpectedWeight& weight, float norm_offset) {
  const float sqrt3 = std::sqrt(3.0f);  // spread of a uniform variable of variance 1
  switch (weight.id) {
    case WeightId::kInputNorm:
    case WeightId::kPostNorm:
    case WeightId::kFinalNorm:
    case WeightId::kQNorm:
    case WeightId::kKNorm:
      return {1.0f - norm_offset, 0.1f};
    case WeightId::kGdnNorm:
      return {1.0f, 0.1f};
    case WeightId::kGdnALog:  // A from 1 to 16
      return {0.5f * std::log(16.0f), 0.5f * std::log(16.0f)};
    case WeightId::kGdnDtBias:  // softplus of it from 0.001 to 0.1
      return {-4.6f, 2.3f};
    case WeightId::kQBias:
    case WeightId::kKBias:
    case WeightId::kVBias:
    case WeightId::kOBias:
      return {0.0f, 0.02f};
    case WeightId::kEmbedding:
      return {0.0f, sqrt3};
    default: {  // a matrix or a convolution: keeps the variance of its input
      const int64_t fan_in = weight.num_elements() / weight.shape[0];
      return {0.0f, sqrt3 / std::sqrt(static_cast<float>(fan_in))};
    }
  }
}

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t hash_name(uint64_t seed, const std::string& name) {
  uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

template <typename T>
void fill(T* out, int64_t count, uint64_t stream, Distribution d) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(stream + static_cast<uint64_t>(i));
    const float unit = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;  // [−1, 1)
    out[i] = from_float<T>(d.center + d.spread * unit);
  }
}

class DummySource final : public TensorSource {
 public:
  DummySource(uint64_t seed, DType dtype, float norm_offset)
      : seed_(seed), dtype_(dtype), norm_offset_(norm_offset) {}

  Result<LoadedWeight> load(const ExpectedWeight& weight) const override {
    const int64_t count = weight.num_elements();
    const size_t bytes = static_cast<size_t>(count) * dtype_size_bytes(dtype_);
    HEADRACE_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(Device::kCpu, bytes));
    const Distribution d = distribution(weight, norm_offset_);
    const uint64_t stream = hash_name(seed_, weight.name);
    switch (dtype_) {
      case DType::kF32:
        fill(buffer.as<float>(), count, stream, d);
        break;
      case DType::kBF16:
        fill(buffer.as<BF16>(), count, stream, d);
        break;
      case DType::kF16:
        fill(buffer.as<F16>(), count, stream, d);
        break;
      default:
        HEADRACE_CHECK(false, "dummy weights in a type that weights cannot have");
    }
    auto owner = std::make_shared<Buffer>(std::move(buffer));
    const int64_t rows = weight.shape[0];
    return LoadedWeight{{owner->data(), dtype_, rows, count / rows}, owner};
  }

 private:
  uint64_t seed_;
  DType dtype_;
  float norm_offset_;
};

}  // namespace

std::unique_ptr<TensorSource> dummy_source(uint64_t seed, DType dtype, float norm_offset) {
  return std::make_unique<DummySource>(seed, dtype, norm_offset);
}

}  // namespace headrace::model
