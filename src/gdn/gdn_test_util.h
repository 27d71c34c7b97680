// SPDX-License-Identifier: Apache-2.0
// What the GDN tests share: random layers and inputs, an fp64 reference written from the equations,
// and a bench that runs steps over a NaN-poisoned slot pool. It shares no code with what is tested.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "gdn/cpu/parts.h"
#include "gdn/gdn_params.h"
#include "gdn/slot_layout.h"
#include "metadata/step.h"
#include "tests/support/step_builder.h"

namespace headrace::gdn::test {

using Row = headrace::test::TestRow;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline GdnShape make_shape(int hk, int hv, int k, int v, int width = 4) {
  GdnShape shape;
  shape.num_k_heads = hk;
  shape.num_v_heads = hv;
  shape.k_dim = k;
  shape.v_dim = v;
  shape.conv_width = width;
  return shape;
}

// Weights of a layer. A is drawn up to 16, as in trained models.
struct Layer {
  explicit Layer(const GdnShape& s, unsigned seed = 1) : shape(s) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform(0.01f, 16.0f);
    for (int64_t i = 0; i < int64_t{s.conv_dim()} * s.conv_width; ++i) {
      conv_weight.push_back(0.5f * normal(rng));
    }
    for (int h = 0; h < s.num_v_heads; ++h) {
      a_log.push_back(std::log(uniform(rng)));
      dt_bias.push_back(normal(rng) - 3.0f);
    }
    for (int i = 0; i < s.v_dim; ++i) norm_weight.push_back(1.0f + 0.2f * normal(rng));
  }

  GdnShape shape;
  std::vector<float> conv_weight;
  std::vector<float> a_log;
  std::vector<float> dt_bias;
  std::vector<float> norm_weight;
  float eps = 1e-6f;
};

// Projection rows [tokens, projection_dim]; what a sequence consumes.
inline std::vector<float> random_tokens(const GdnShape& shape, int tokens, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(tokens) * shape.projection_dim());
  for (float& value : x) value = normal(rng);
  return x;
}

// Columns of the packed projection.
inline int64_t column_z(const GdnShape& s) { return s.conv_dim(); }
inline int64_t column_b(const GdnShape& s) { return s.conv_dim() + s.value_dim(); }
inline int64_t column_a(const GdnShape& s) { return column_b(s) + s.num_v_heads; }

// One sequence in double precision: window, S, and a step of one token.
class Reference {
 public:
  explicit Reference(const Layer& layer)
      : layer_(layer),
        window_(static_cast<size_t>(layer.shape.conv_width - 1) * layer.shape.conv_dim()),
        state_(static_cast<size_t>(layer.shape.value_dim()) * layer.shape.k_dim) {}

  const std::vector<double>& window() const { return window_; }
  const std::vector<double>& state() const { return state_; }

  // Appends the token's o and its output to the given lists.
  void step(const float* x, std::vector<double>* o_out, std::vector<double>* out) {
    const GdnShape& s = layer_.shape;
    std::vector<double> u = convolve(x);
    for (int h = 0; h < s.num_v_heads; ++h) {
      const int kh = h / (s.num_v_heads / s.num_k_heads);
      std::vector<double> q = unit(&u[static_cast<size_t>(kh) * s.k_dim], s.k_dim);
      std::vector<double> k = unit(&u[static_cast<size_t>(s.key_dim() + kh * s.k_dim)], s.k_dim);
      const double* v = &u[static_cast<size_t>(2 * s.key_dim() + h * s.v_dim)];
      const double a = double{x[column_a(s) + h]} + layer_.dt_bias[static_cast<size_t>(h)];
      const double softplus = a > 40.0 ? a : std::log1p(std::exp(a));
      const double rate = std::exp(double{layer_.a_log[static_cast<size_t>(h)]});
      const double alpha = softplus == 0.0 ? 1.0 : std::exp(-rate * softplus);
      const double beta = 1.0 / (1.0 + std::exp(-double{x[column_b(s) + h]}));
      std::vector<double> o(static_cast<size_t>(s.v_dim));
      for (int r = 0; r < s.v_dim; ++r) {
        double* row = &state_[(static_cast<size_t>(h) * s.v_dim + r) * s.k_dim];
        double sk = 0.0;
        for (int i = 0; i < s.k_dim; ++i) sk += (row[i] *= alpha) * k[static_cast<size_t>(i)];
        const double d = beta * (v[r] - sk);
        double sq = 0.0;
        for (int i = 0; i < s.k_dim; ++i) {
          row[i] += d * k[static_cast<size_t>(i)];
          sq += row[i] * q[static_cast<size_t>(i)];
        }
        o[static_cast<size_t>(r)] = sq / std::sqrt(static_cast<double>(s.k_dim));
      }
      double square = 0.0;
      for (double value : o) square += value * value;
      const double norm = 1.0 / std::sqrt(square / s.v_dim + layer_.eps);
      for (int r = 0; r < s.v_dim; ++r) {
        const double value = o[static_cast<size_t>(r)];
        const double z = x[column_z(s) + h * s.v_dim + r];
        if (o_out != nullptr) o_out->push_back(value);
        if (out != nullptr) {
          out->push_back(layer_.norm_weight[static_cast<size_t>(r)] * value * norm * z /
                         (1.0 + std::exp(-z)));
        }
      }
    }
  }

 private:
  std::vector<double> convolve(const float* x) {
    const GdnShape& s = layer_.shape;
    const int width = s.conv_width;
    std::vector<double> u(static_cast<size_t>(s.conv_dim()));
    for (int c = 0; c < s.conv_dim(); ++c) {
      const float* w = &layer_.conv_weight[static_cast<size_t>(c) * width];
      double sum = double{w[width - 1]} * x[c];
      for (int i = 0; i < width - 1; ++i) {
        double& past = window_[static_cast<size_t>(i) * s.conv_dim() + c];
        sum += w[i] * past;
        past = i + 1 < width - 1 ? window_[static_cast<size_t>(i + 1) * s.conv_dim() + c] : x[c];
      }
      u[static_cast<size_t>(c)] = sum / (1.0 + std::exp(-sum));
    }
    return u;
  }

  static std::vector<double> unit(const double* x, int n) {
    double square = 0.0;
    for (int i = 0; i < n; ++i) square += x[i] * x[i];
    std::vector<double> y(x, x + n);
    for (double& value : y) value /= std::sqrt(square + 1e-6);
    return y;
  }

  const Layer& layer_;
  std::vector<double> window_;
  std::vector<double> state_;
};

// ‖a − b‖ / ‖b‖; a NaN makes it infinite.
template <typename A, typename B>
double relative_error(const A& a, const B& b) {
  double error = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += difference * difference;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  if (a.size() != b.size() || std::isnan(error)) return std::numeric_limits<double>::infinity();
  return norm == 0.0 ? std::sqrt(error) : std::sqrt(error / norm);
}

// A layer with its slots. Memory that no step wrote is NaN, so that reading it shows.
class Bench {
 public:
  Bench(const Layer& layer, int num_slots, int max_window = 0, int64_t slot_padding = 0,
        int num_threads = 1, const CpuKernels& kernels = cpu_kernels())
      : layer_(layer), kernels_(kernels), threads_(num_threads) {
    pool_.num_slots = num_slots;
    pool_.max_window = max_window;
    pool_.slot_stride = slot_words(layer.shape, max_window) + slot_padding;
    memory_.assign(static_cast<size_t>(pool_.slot_stride * num_slots), kNan);
    pool_.data = memory_.data();
  }

  const SlotPool& pool() const { return pool_; }
  std::vector<float>& memory() { return memory_; }

  // Runs one step over `x` [tokens, projection_dim]; returns [tokens, Hv · V]. Checks nothing.
  std::vector<float> run(const std::vector<Row>& rows, const std::vector<float>& x,
                         const std::vector<metadata::Checkpoint>& checkpoints = {},
                         int padding_tokens = 0) {
    const GdnShape& shape = layer_.shape;
    const int32_t tokens = static_cast<int32_t>(x.size() / shape.projection_dim());
    headrace::test::TestStep step(
        rows, {.max_tokens = std::max(1, tokens + padding_tokens), .checkpoints = checkpoints});
    const metadata::Limits& limits = step.view().limits;
    std::vector<float> workspace(static_cast<size_t>(gdn_mix_workspace_floats(shape, limits)),
                                 kNan);
    std::vector<float> out(static_cast<size_t>(limits.max_tokens) * shape.value_dim(), kNan);
    gdn_mix(threads_, kernels_, params(x, out, workspace, step.view()));
    return out;
  }

  GdnMixParams params(const std::vector<float>& x, std::vector<float>& out,
                      std::vector<float>& workspace, const metadata::StepView& step) const {
    GdnMixParams params;
    params.shape = layer_.shape;
    params.projection = x.data();
    params.projection_stride = layer_.shape.projection_dim();
    params.conv_weight = layer_.conv_weight.data();
    params.a_log = layer_.a_log.data();
    params.dt_bias = layer_.dt_bias.data();
    params.norm_weight = layer_.norm_weight.data();
    params.norm_eps = layer_.eps;
    params.slots = pool_;
    params.out = out.data();
    params.out_stride = layer_.shape.value_dim();
    params.workspace = workspace.data();
    params.step = step;
    return params;
  }

  // Other memory for the slots, with room for all of them.
  void set_memory(float* data, int64_t slot_stride) {
    pool_.data = data;
    pool_.slot_stride = slot_stride;
  }

  std::vector<float> window(int slot) const {
    const float* data = slot_data(pool_, slot) + slot_layout(layer_.shape, pool_.max_window).conv;
    return {data, data + int64_t{layer_.shape.conv_width - 1} * layer_.shape.conv_dim()};
  }
  std::vector<float> state(int slot) const {
    const float* data = slot_data(pool_, slot) + slot_layout(layer_.shape, pool_.max_window).state;
    return {data, data + int64_t{layer_.shape.value_dim()} * layer_.shape.k_dim};
  }

 private:
  const Layer& layer_;
  const CpuKernels& kernels_;
  ThreadPool threads_;
  SlotPool pool_;
  std::vector<float> memory_;
};

inline Row make_row(int query_len, int context_len, int initial_slot, int final_slot,
                    int num_drafts = 0, int num_accepted = 0) {
  Row row;
  row.query_len = query_len;
  row.context_len = context_len;
  row.initial_slot = initial_slot;
  row.final_slot = final_slot;
  row.num_drafts = num_drafts;
  row.num_accepted = num_accepted;
  return row;
}

// Rows `begin` … `end` of x [tokens, width].
inline std::vector<float> slice(const std::vector<float>& x, int64_t width, int64_t begin,
                                int64_t end) {
  return {x.begin() + begin * width, x.begin() + end * width};
}

}  // namespace headrace::gdn::test
