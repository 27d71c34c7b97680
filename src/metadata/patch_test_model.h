// SPDX-License-Identifier: Apache-2.0
// A model for tests of the patch ring, so small that it is one function on the CPU and the GPU, and
// so touchy that any wrong token, page, slot or blob changes what it says from there on: it keeps
// tokens in pages and a running hash in slots, and samples a hash of all it can reach.
#pragma once

#include <cstdint>
#include <vector>

#include "metadata/host_device.h"
#include "metadata/patch.h"

namespace headrace::metadata::test_model {

// A row's blob.
inline constexpr int32_t kBlobWords = 2;
inline constexpr int32_t kBlobSalt = 0;
inline constexpr int32_t kBlobEndLen = 1;  // the row ends when it has so many tokens; 0 = never

HEADRACE_HOST_DEVICE inline uint32_t mix(uint32_t hash, int32_t value) {
  hash = (hash ^ static_cast<uint32_t>(value)) * 0x9E3779B1u;
  return hash ^ (hash >> 15);
}
HEADRACE_HOST_DEVICE inline int32_t token_of(uint32_t cache, uint32_t state, int32_t salt) {
  // The two are equal when all is well: what is mixed between them keeps them from cancelling.
  const uint32_t both = mix(mix(1, static_cast<int32_t>(cache)), static_cast<int32_t>(state));
  return static_cast<int32_t>(mix(both, salt) >> 1);
}

struct Model {
  StepView step;
  const int32_t* token_ids = nullptr;  // [T]
  const int32_t* blobs = nullptr;      // [R, kBlobWords]
  int32_t* cache = nullptr;            // [pages · page_size] token at each place
  uint32_t* states = nullptr;          // [slots]
  int32_t* sampled = nullptr;          // [T]
  uint8_t* ended = nullptr;            // [R]
};

// Runs row r of the step; returns the token that it emitted, or −1.
HEADRACE_HOST_DEVICE inline int32_t run_row(const Model& model, int32_t r) {
  const StepView& step = model.step;
  const int32_t query_len = step.query_len[r];
  if (query_len == 0) return -1;
  uint32_t state = step.has_initial_state[r] != 0 ? model.states[step.initial_slot[r]] : 0;
  for (int32_t i = 0; i < query_len; ++i) {
    const int32_t t = step.query_start_i32[r] + i;
    model.cache[step.slot_mapping[t]] = model.token_ids[t];
    state = mix(state, model.token_ids[t]);
  }
  if (step.final_slot[r] != kNullSlot) model.states[step.final_slot[r]] = state;

  uint32_t cache = 0;
  const int32_t page_size = step.limits.page_size;
  for (int32_t p = 0; p < step.seq_len[r]; ++p) {
    const int32_t page = step.page_table[r * step.limits.max_pages_per_row + p / page_size];
    cache = mix(cache, model.cache[page * page_size + p % page_size]);
  }
  if (step.logit_start[r + 1] == step.logit_start[r]) return -1;
  const int32_t* blob = model.blobs + r * kBlobWords;
  const int32_t token = token_of(cache, state, blob[kBlobSalt]);
  model.sampled[step.logit_start[r]] = token;
  model.ended[r] = blob[kBlobEndLen] > 0 && step.seq_len[r] >= blob[kBlobEndLen] ? 1 : 0;
  return token;
}

// What a sequence must emit, from its tokens alone.
inline std::vector<int32_t> expected_tokens(std::vector<int32_t> tokens, int32_t salt,
                                            int32_t count) {
  std::vector<int32_t> emitted;
  while (static_cast<int32_t>(emitted.size()) < count) {
    uint32_t hash = 0;
    for (int32_t token : tokens) hash = mix(hash, token);
    emitted.push_back(token_of(hash, hash, salt));
    tokens.push_back(emitted.back());
  }
  return emitted;
}

}  // namespace headrace::metadata::test_model
