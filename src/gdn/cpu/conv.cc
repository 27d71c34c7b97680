// SPDX-License-Identifier: Apache-2.0
// Driver of the causal convolution: brings the right history in front of each row's tokens, and
// keeps windows in final, checkpoint and verify slots. A piece of work is one row and a block of
// channels, so in-place windows are read and written by the same piece.
#include <algorithm>
#include <cstring>

#include "gdn/cpu/parts.h"
#include "gdn/row_state.h"
#include "gdn/slot_layout.h"

namespace headrace::gdn {
namespace {

constexpr int32_t kChannelBlock = 128;
constexpr int32_t kTokenBlock = 64;
// Raw inputs in front of a row's tokens: the window and the replayed part of the pending window.
constexpr int32_t kMaxHistory = kMaxConvWidth - 1 + metadata::kMaxVerifyTokens;

// One row, one block of channels.
class ConvPiece {
 public:
  ConvPiece(const ConvParams& params, int32_t row, int32_t channel)
      : params_(params),
        layout_(slot_layout(params.shape, params.slots.max_window)),
        row_(row),
        channel_(channel),
        channels_(std::min(kChannelBlock, params.shape.conv_dim() - channel)),
        window_(params.shape.conv_width - 1),
        state_(row_state(params.step, params.slots, row)) {}

  void run(const CpuKernels& kernels) {
    if (state_.query_len == 0) return;
    load_history();
    convolve(kernels);
    store_checkpoints();
    if (state_.final_slot != metadata::kNullSlot) store_final();
  }

 private:
  // Raw input `index` tokens after the row's first token, −window_ − num_replayed ≤ index.
  const float* input(int64_t index) const {
    if (index < 0) return history_ + (window_ + state_.num_replayed + index) * kChannelBlock;
    return static_cast<const float*>(params_.x) + (state_.first_token + index) * params_.x_stride +
           channel_;
  }

  void copy(float* to, const float* from) const {
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(channels_));
  }

  void load_history() {
    const int64_t stride = params_.shape.conv_dim();
    if (state_.initial_slot == metadata::kNullSlot) {
      std::fill_n(history_, window_ * kChannelBlock, 0.0f);
      return;
    }
    const float* slot = slot_data(params_.slots, state_.initial_slot) + channel_;
    for (int32_t i = 0; i < window_; ++i) {
      copy(history_ + i * kChannelBlock, slot + layout_.conv + i * stride);
    }
    for (int32_t i = 0; i < state_.num_replayed; ++i) {
      copy(history_ + (window_ + i) * kChannelBlock, slot + layout_.pending_conv + i * stride);
    }
  }

  void convolve(const CpuKernels& kernels) const {
    const int32_t width = window_ + 1;
    float weight[kMaxConvWidth * kChannelBlock];
    for (int32_t c = 0; c < channels_; ++c) {
      for (int32_t i = 0; i < width; ++i) {
        weight[i * channels_ + c] =
            static_cast<const float*>(params_.weight)[int64_t{channel_ + c} * width + i];
      }
    }
    const int64_t out_stride = params_.shape.conv_dim();
    const float* inputs[kTokenBlock + kMaxConvWidth - 1];
    for (int32_t begin = 0; begin < state_.query_len; begin += kTokenBlock) {
      const int32_t tokens = std::min(kTokenBlock, state_.query_len - begin);
      for (int32_t i = 0; i < tokens + window_; ++i) inputs[i] = input(begin + i - window_);
      kernels.conv(
          inputs, tokens, width, weight, channels_,
          static_cast<float*>(params_.out) + (state_.first_token + begin) * out_stride + channel_,
          out_stride);
    }
  }

  // The window in front of the token `index` after the row's first one.
  void store_window(int32_t slot, int64_t index) const {
    float* window = slot_data(params_.slots, slot) + layout_.conv + channel_;
    for (int32_t i = 0; i < window_; ++i) {
      copy(window + int64_t{i} * params_.shape.conv_dim(), input(index - window_ + i));
    }
  }

  void store_checkpoints() const {
    for_each_checkpoint(
        params_.step, row_, state_.context_len, int64_t{state_.context_len} + state_.query_len,
        [&](int64_t position, int32_t slot) { store_window(slot, position - state_.context_len); });
  }

  void store_final() const {
    if (!state_.is_verify) {
      store_window(state_.final_slot, state_.query_len);
      return;
    }
    store_window(state_.final_slot, 0);
    float* pending = slot_data(params_.slots, state_.final_slot) + layout_.pending_conv + channel_;
    for (int32_t i = 0; i < state_.query_len; ++i) {
      copy(pending + int64_t{i} * params_.shape.conv_dim(), input(i));
    }
  }

  const ConvParams& params_;
  const SlotLayout layout_;
  const int32_t row_;
  const int32_t channel_;
  const int32_t channels_;
  const int32_t window_;
  const RowState state_;
  float history_[kMaxHistory * kChannelBlock];
};

}  // namespace

void causal_conv(ThreadPool& pool, const CpuKernels& kernels, const ConvParams& params) {
  const metadata::Counts& counts = *params.step.counts;
  if (counts.num_tokens == 0) return;
  const int32_t blocks = (params.shape.conv_dim() + kChannelBlock - 1) / kChannelBlock;
  // About 4 channels of 4 taps a nanosecond: pieces worth some 20 µs a range.
  const int64_t tokens_per_row = counts.num_tokens / counts.num_rows + 1;
  const int64_t grain = 1 + 512 / tokens_per_row;
  pool.parallel_for(int64_t{counts.num_rows} * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const auto row = static_cast<int32_t>(piece / blocks);
      const auto block = static_cast<int32_t>(piece % blocks);
      ConvPiece(params, row, block * kChannelBlock).run(kernels);
    }
  });
}

}  // namespace headrace::gdn
