// SPDX-License-Identifier: Apache-2.0
// Cuts the work into blocks (one key head, some consecutive tokens of one row), walks a block's key
// tiles through the page table and hands each to the kernel. How blocks are cut depends on batch
// and threads; what a token gets does not.
#include "attention/cpu/attention_tiled.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention.h"
#include "attention/cpu/attention_tile.h"
#include "attention/kv_cache.h"

namespace headrace::attention {
namespace {

static_assert(kTileKeys == kKeyTile);
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Scratch {
  std::vector<float> floats;
  std::array<PairState, kMaxPairs> states;
  std::array<int64_t, kTileKeys> key_offsets;

  // Grows once; a thread's later blocks of the same head dim allocate nothing.
  void reserve(int64_t head_dim) {
    const int64_t size = (2 * kTileKeys + 2 * kMaxPairs) * head_dim + kMaxPairs * kTileKeys;
    if (static_cast<int64_t>(floats.size()) < size) floats.resize(static_cast<size_t>(size));
  }
};

struct Block {
  int64_t token = 0;  // the first
  int64_t num_tokens = 0;
  int64_t kv_head = 0;
};

// Offsets of the keys at positions [begin, end) into lanes begin − tile …; the lanes around them
// repeat the first.
void find_keys(const KvCache& cache, const int32_t* pages, int64_t kv_head, int64_t tile,
               int64_t begin, int64_t end, std::array<int64_t, kTileKeys>& offsets) {
  const int32_t* page = pages + begin / cache.page_size;
  int64_t in_page = begin % cache.page_size;
  offsets.fill(key_offset(cache, *page, in_page, kv_head));
  for (int64_t position = begin; position < end; ++position) {
    if (in_page == cache.page_size) {
      in_page = 0;
      ++page;
    }
    offsets[static_cast<size_t>(position - tile)] = key_offset(cache, *page, in_page++, kv_head);
  }
}

void start(const AttentionParams& params, const Block& block, int64_t group, float* q, float* out,
           std::array<PairState, kMaxPairs>& states) {
  const int64_t head_dim = params.heads.head_dim;
  for (int64_t i = 0; i < block.num_tokens; ++i) {
    const float* source = static_cast<const float*>(params.q) +
                          (block.token + i) * params.q_stride + block.kv_head * group * head_dim;
    std::copy(source, source + group * head_dim, q + i * group * head_dim);
    for (int64_t g = 0; g < group; ++g) {
      const float sink = params.sinks != nullptr ? params.sinks[block.kv_head * group + g] : kNone;
      states[static_cast<size_t>(i * group + g)] = {sink, sink > kNone ? 1.0f : 0.0f};
    }
  }
  std::fill(out, out + block.num_tokens * group * head_dim, 0.0f);
}

void finish(const AttentionParams& params, const Block& block, int64_t group, const float* out,
            const std::array<PairState, kMaxPairs>& states) {
  const int64_t head_dim = params.heads.head_dim;
  for (int64_t pair = 0; pair < block.num_tokens * group; ++pair) {
    const PairState& state = states[static_cast<size_t>(pair)];
    const int64_t token = block.token + pair / group;
    const int64_t head = block.kv_head * group + pair % group;
    const float* source = out + pair * head_dim;
    float* target = static_cast<float*>(params.out) + token * params.out_stride + head * head_dim;
    // Not "!= 0": a sum that is NaN must show.
    const float inverse = state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
    for (int64_t d = 0; d < head_dim; ++d) target[d] = source[d] * inverse;
    if (params.lse != nullptr) {
      params.lse[token * params.heads.num_q_heads + head] =
          state.sum == 0.0f ? kNone : state.max + std::log(state.sum);
    }
  }
}

void attend(const AttentionParams& params, const Block& block, Scratch& scratch) {
  const metadata::StepView& step = params.step;
  const int64_t head_dim = params.heads.head_dim;
  const int64_t group = params.heads.num_q_heads / params.heads.num_kv_heads;
  const int64_t row = step.token_row[block.token];
  const int32_t* pages = step.page_table + row * step.limits.max_pages_per_row;
  const int64_t position = step.token_position[block.token];
  const int64_t end = position + block.num_tokens;
  const int64_t window = params.window > 0 ? params.window : end;
  const int64_t begin = std::max<int64_t>(0, position + 1 - window);

  scratch.reserve(head_dim);
  float* keys = scratch.floats.data();
  float* values = keys + kTileKeys * head_dim;
  float* q = values + kTileKeys * head_dim;
  float* out = q + kMaxPairs * head_dim;
  float* scores = out + kMaxPairs * head_dim;
  start(params, block, group, q, out, scratch.states);
  for (int64_t tile = begin / kTileKeys * kTileKeys; tile < end; tile += kTileKeys) {
    const int64_t tile_begin = std::max(begin, tile);
    const int64_t tile_end = std::min(end, tile + kTileKeys);
    find_keys(params.cache, pages, block.kv_head, tile, tile_begin, tile_end, scratch.key_offsets);
    attention_tile_avx2({.cache = params.cache.data,
                         .dtype = params.cache.dtype,
                         .key_offsets = scratch.key_offsets.data(),
                         .value_offset = params.cache.value_offset,
                         .begin = tile_begin - tile,
                         .end = tile_end - tile,
                         .head_dim = head_dim,
                         .num_pairs = block.num_tokens * group,
                         .group = group,
                         .q = q,
                         .states = scratch.states.data(),
                         .out = out,
                         .first_seen = position + 1 - window - tile,
                         .end_seen = position + 1 - tile,
                         .scale = params.scale,
                         .soft_cap = params.soft_cap,
                         .keys = keys,
                         .values = values,
                         .scores = scores});
  }
  finish(params, block, group, out, scratch.states);
}

void clear_padding(const AttentionParams& params, int64_t token) {
  const int64_t num_heads = params.heads.num_q_heads;
  float* out = static_cast<float*>(params.out) + token * params.out_stride;
  std::fill(out, out + num_heads * params.heads.head_dim, 0.0f);
  if (params.lse != nullptr) {
    std::fill(params.lse + token * num_heads, params.lse + (token + 1) * num_heads, kNone);
  }
}

}  // namespace

void attention_tiled(const AttentionParams& params, ThreadPool& pool) {
  const metadata::StepView& step = params.step;
  const int64_t num_tokens = step.counts->num_tokens;
  const int64_t max_queries = kMaxPairs / (params.heads.num_q_heads / params.heads.num_kv_heads);
  for (int64_t token = num_tokens; token < step.limits.max_tokens; ++token) {
    clear_padding(params, token);
  }
  // Items are (key head, token), tokens fastest: a range of items holds long runs of a row.
  pool.parallel_for(params.heads.num_kv_heads * num_tokens, 1, [&](int64_t begin, int64_t end) {
    thread_local Scratch scratch;
    for (int64_t item = begin; item < end;) {
      const int64_t token = item % num_tokens;
      const int64_t row_end = step.query_start_i64[step.token_row[token] + 1];
      const Block block{.token = token,
                        .num_tokens = std::min({end - item, row_end - token, max_queries}),
                        .kv_head = item / num_tokens};
      attend(params, block, scratch);
      item += block.num_tokens;
    }
  });
}

}  // namespace headrace::attention
