// SPDX-License-Identifier: Apache-2.0
// What Gated DeltaNet costs on the CPU, one thread: CPU microseconds a token and layer for prompts
// and decode steps, and for the parts of a prompt. `gdn_cpu_bench` uses the demo model's shape;
// `gdn_cpu_bench Hk Hv K V` another.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "base/cpu_features.h"
#include "gdn/cpu/parts.h"
#include "gdn/slot_layout.h"
#include "metadata/arena.h"
#include "tensor/stream.h"

namespace headrace::gdn {
namespace {

std::vector<float> random_floats(int64_t n, float scale, float offset = 0.0f) {
  static std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = offset + scale * normal(rng);
  return values;
}

double cpu_time_us() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// CPU time, so that a busy machine disturbs less. Median of a few runs, each long enough to time.
double median_us(const std::function<void()>& body) {
  body();
  std::vector<double> samples;
  for (int sample = 0; sample < 7; ++sample) {
    const double start = cpu_time_us();
    int count = 0;
    double elapsed = 0.0;
    while (elapsed < 20e3) {
      body();
      ++count;
      elapsed = cpu_time_us() - start;
    }
    samples.push_back(elapsed / count);
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// One layer and a step of equal rows.
class Case {
 public:
  Case(const GdnShape& shape, const CpuKernels& kernels, int rows, int tokens, int context)
      : shape_(shape), kernels_(kernels), threads_(1), stream_(threads_) {
    metadata::Limits limits;
    limits.max_rows = rows;
    limits.max_tokens = rows * tokens;
    limits.max_pages_per_row = (context + tokens + 15) / 16;
    arena_ = std::move(metadata::StepArena::create(Device::kCpu, limits)).value();
    const metadata::StepInput& input = arena_.input();
    *input.num_rows = *input.padded_rows = rows;
    *input.num_checkpoints = 0;
    for (int r = 0; r < rows; ++r) {
      metadata::Row& row = input.rows[r];
      row = {};
      row.query_len = tokens;
      row.context_len = context;
      row.initial_slot = row.final_slot = r + 1;
      row.num_pages = limits.max_pages_per_row;
      for (int p = 0; p < row.num_pages; ++p) {
        input.page_table[r * limits.max_pages_per_row + p] = r * limits.max_pages_per_row + p + 1;
      }
    }
    metadata::build(stream_, arena_);

    projection_ = random_floats(int64_t{limits.max_tokens} * shape.projection_dim(), 1.0f);
    conv_weight_ = random_floats(int64_t{shape.conv_dim()} * shape.conv_width, 0.5f);
    a_log_ = random_floats(shape.num_v_heads, 1.0f);
    dt_bias_ = random_floats(shape.num_v_heads, 1.0f, -3.0f);
    norm_weight_ = random_floats(shape.v_dim, 0.1f, 1.0f);
    out_.resize(static_cast<size_t>(int64_t{limits.max_tokens} * shape.value_dim()));
    workspace_.resize(static_cast<size_t>(gdn_mix_workspace_floats(shape, limits)));
    slots_.num_slots = rows + 1;
    slots_.slot_stride = slot_words(shape, 0);
    slot_memory_.resize(static_cast<size_t>(slots_.slot_stride * slots_.num_slots));
    slots_.data = slot_memory_.data();

    params_.shape = shape;
    params_.projection = projection_.data();
    params_.projection_stride = shape.projection_dim();
    params_.conv_weight = conv_weight_.data();
    params_.a_log = a_log_.data();
    params_.dt_bias = dt_bias_.data();
    params_.norm_weight = norm_weight_.data();
    params_.slots = slots_;
    params_.out = out_.data();
    params_.out_stride = shape.value_dim();
    params_.workspace = workspace_.data();
    params_.step = arena_.view();
  }

  double mix_us() {
    return median_us([&] { gdn_mix(threads_, kernels_, params_); });
  }

  // Convolution, post-convolution, delta rule, gated norm, with buffers of their own.
  std::vector<double> parts_us() {
    const int64_t tokens = params_.step.limits.max_tokens;
    std::vector<float> conv(static_cast<size_t>(tokens * shape_.conv_dim()));
    std::vector<float> q(static_cast<size_t>(tokens * shape_.key_dim()));
    std::vector<float> k(q.size());
    std::vector<float> v(static_cast<size_t>(tokens * shape_.value_dim()));
    std::vector<float> gate(static_cast<size_t>(tokens * shape_.num_v_heads));
    std::vector<float> beta(gate.size());
    std::vector<float> workspace(
        static_cast<size_t>(delta_rule_workspace_floats(shape_, params_.step.limits)));
    const float* z = projection_.data() + shape_.conv_dim();
    const float* b = z + shape_.value_dim();
    ConvParams conv_params{.shape = shape_,
                           .x = params_.projection,
                           .x_stride = params_.projection_stride,
                           .weight = params_.conv_weight,
                           .slots = slots_,
                           .out = conv.data(),
                           .step = params_.step};
    PostConvParams post{.shape = shape_,
                        .conv = conv.data(),
                        .b = b,
                        .a = b + shape_.num_v_heads,
                        .gate_stride = params_.projection_stride,
                        .a_log = params_.a_log,
                        .dt_bias = params_.dt_bias,
                        .q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .q_stride = head_major(shape_.k_dim, params_.step.limits),
                        .k_stride = head_major(shape_.k_dim, params_.step.limits),
                        .v_stride = head_major(shape_.v_dim, params_.step.limits),
                        .gate = gate.data(),
                        .beta = beta.data(),
                        .step = params_.step};
    DeltaRuleParams delta{.shape = shape_,
                          .q = q.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .q_stride = head_major(shape_.k_dim, params_.step.limits),
                          .k_stride = head_major(shape_.k_dim, params_.step.limits),
                          .v_stride = head_major(shape_.v_dim, params_.step.limits),
                          .gate = gate.data(),
                          .beta = beta.data(),
                          .slots = slots_,
                          .out = params_.out,
                          .out_stride = params_.out_stride,
                          .workspace = workspace.data(),
                          .step = params_.step};
    GatedNormParams norm{.shape = shape_,
                         .z = z,
                         .z_stride = params_.projection_stride,
                         .weight = params_.norm_weight,
                         .out = params_.out,
                         .out_stride = params_.out_stride,
                         .step = params_.step};
    return {median_us([&] { causal_conv(threads_, kernels_, conv_params); }),
            median_us([&] { post_conv(threads_, kernels_, post); }),
            median_us([&] { delta_rule(threads_, kernels_, delta); }),
            median_us([&] { gated_norm(threads_, kernels_, norm); })};
  }

 private:
  GdnShape shape_;
  const CpuKernels& kernels_;
  ThreadPool threads_;
  CpuStream stream_;
  metadata::StepArena arena_ = std::move(metadata::StepArena::create(Device::kCpu, {})).value();
  SlotPool slots_;
  GdnMixParams params_;
  std::vector<float> projection_, conv_weight_, a_log_, dt_bias_, norm_weight_, out_, workspace_,
      slot_memory_;
};

void report(const GdnShape& shape, const CpuKernels& kernels, const char* name) {
  fmt::print("{}: Hk {} Hv {} K {} V {}, one thread; CPU us a token and layer\n", name,
             shape.num_k_heads, shape.num_v_heads, shape.k_dim, shape.v_dim);
  for (int tokens : {1, 4, 8, 16, 32, 64, 512, 2048}) {
    Case one(shape, kernels, 1, tokens, 0);
    fmt::print("  prompt {:5}  {:8.3f}", tokens, one.mix_us() / tokens);
    const std::vector<double> parts = one.parts_us();
    fmt::print("   conv {:.3f}  post {:.3f}  delta {:.3f}  norm {:.3f}\n", parts[0] / tokens,
               parts[1] / tokens, parts[2] / tokens, parts[3] / tokens);
  }
  for (int rows : {1, 8, 64}) {
    fmt::print("  decode {:3} rows  {:8.3f}\n", rows,
               Case(shape, kernels, rows, 1, 100).mix_us() / rows);
  }
}

}  // namespace
}  // namespace headrace::gdn

int main(int argc, char** argv) {
  using namespace headrace;
  gdn::GdnShape shape;
  shape.num_k_heads = argc == 5 ? std::atoi(argv[1]) : 1;
  shape.num_v_heads = argc == 5 ? std::atoi(argv[2]) : 2;
  shape.k_dim = argc == 5 ? std::atoi(argv[3]) : 128;
  shape.v_dim = argc == 5 ? std::atoi(argv[4]) : 128;
  if (cpu_isa() == Isa::kAvx2) gdn::report(shape, gdn::avx2_kernels(), "avx2");
  gdn::report(shape, gdn::scalar_kernels(), "scalar");
  return 0;
}
