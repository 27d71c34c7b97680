// SPDX-License-Identifier: Apache-2.0
// What the attention tests share: a batch of sequences with known queries, keys and values, a paged
// cache in any layout that holds them (and NaN everywhere else), and the answer in fp64.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/attention_params.h"
#include "tests/support/step_builder.h"

namespace headrace::attention {

// The kernels that this processor can run, under their names.
struct NamedKernel {
  const char* name;
  void (*run)(const AttentionParams&, ThreadPool&);
};
std::vector<NamedKernel> kernels();

enum class Layout { kNhd, kHnd };

// A sequence is known by its key: the same key gives the same q, k and v at each position, in
// whatever batch, chunk or cache it appears.
struct Sequence {
  uint32_t key = 1;
  test::TestRow row;
};

Sequence prefill(uint32_t key, int32_t query_len, int32_t context_len = 0);
Sequence decode(uint32_t key, int32_t context_len);
Sequence verify(uint32_t key, int32_t num_drafts, int32_t context_len);
Sequence padding();
// One row of every kind and more, in no order.
std::vector<Sequence> mixed_batch();

struct Shape {
  HeadShape heads{.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  DType dtype = DType::kF32;
  Layout layout = Layout::kNhd;
  int32_t page_size = 16;
  int32_t stride_padding = 0;  // elements added to every stride
  float scale = 0.125f;
  int32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  bool lse = true;
  float magnitude = 1.0f;  // standard deviation of q, k and v
};

struct Output {
  std::vector<float> out;  // [max_tokens, Hq, D]
  std::vector<float> lse;  // [max_tokens, Hq]
};

KvCache make_cache(const Shape& shape, int32_t num_pages);
int64_t cache_elements(const KvCache& cache);

class Problem {
 public:
  Problem(const Shape& shape, const std::vector<Sequence>& sequences,
          test::TestStepOptions options = {});

  // Copies move the vectors that params() points into.
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  Output run(const NamedKernel& kernel);
  // Every token and head in fp64, from the values as the cache rounds them.
  Output exact() const;

  AttentionParams params() const { return params_; }
  test::TestStep& step() { return step_; }
  const Shape& shape() const { return shape_; }
  // Position-major data of sequence s: q [seq_len, Hq, D]; k, v [seq_len, Hkv, D], as rounded to
  // the cache's dtype. May be changed before store().
  std::vector<float>& q(size_t s) { return q_[s]; }
  std::vector<float>& k(size_t s) { return k_[s]; }
  std::vector<float>& v(size_t s) { return v_[s]; }
  std::vector<float>& sinks() { return sinks_; }
  // Fills the cache with NaN and writes all keys and values into their pages; packs q.
  void store();

 private:
  Shape shape_;
  std::vector<Sequence> sequences_;
  test::TestStep step_;
  std::vector<std::vector<float>> q_, k_, v_;
  std::vector<float> sinks_;
  std::vector<char> cache_bytes_;
  std::vector<float> packed_q_;
  AttentionParams params_;
};

}  // namespace headrace::attention
