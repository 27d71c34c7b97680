// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_model.h"

#include <algorithm>
#include <cstring>

#include "ops/sampling.h"

namespace headrace::test {
namespace {

// The finaliser of splitmix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// What a token leaves in its page.
uint64_t page_entry(int32_t token, int32_t position) {
  return mix(mix(static_cast<uint64_t>(token)) + static_cast<uint64_t>(position));
}

// The recurrence: order matters.
uint64_t next_state(uint64_t state, int32_t token) {
  return mix(state ^ mix(static_cast<uint64_t>(token) + 77));
}

// The sum over the context: each entry weighted by its position.
uint64_t attend(uint64_t sum, uint64_t entry, int32_t position) {
  return sum + mix(entry ^ (static_cast<uint64_t>(position) << 32));
}

void write_logits(uint64_t attended, uint64_t state, int32_t vocab_size, float* logits) {
  const uint64_t seed = mix(attended ^ mix(state));
  for (int32_t id = 0; id < vocab_size; ++id) {
    const uint64_t bits = mix(seed + static_cast<uint64_t>(id)) >> 40;  // 24 bits: exact in a float
    logits[id] = static_cast<float>(bits) / static_cast<float>(1 << 21);
  }
}

void run_row(const metadata::StepView& step, int32_t r, model::Cache& cache,
             const model::StepIo& io, int32_t vocab_size) {
  auto* pages = cache.pages.as<uint64_t>();
  auto* slots = cache.slots.as<uint64_t>();
  uint64_t state = step.has_initial_state[r] != 0 ? slots[step.initial_slot[r]] : 0;
  const int32_t begin = step.query_start_i32[r];
  const int32_t length = step.query_len[r];
  for (int32_t t = begin; t < begin + length; ++t) {
    state = next_state(state, io.token_ids[t]);
    if (step.slot_mapping[t] >= 0) {
      pages[step.slot_mapping[t]] = page_entry(io.token_ids[t], step.token_position[t]);
    }
  }
  if (length > 0 && step.final_slot[r] != 0) slots[step.final_slot[r]] = state;
  const int32_t page_size = step.limits.page_size;
  const int32_t* table = step.page_table + int64_t{r} * step.limits.max_pages_per_row;
  for (int32_t l = step.logit_start[r]; l < step.logit_start[r + 1]; ++l) {
    uint64_t sum = 0;
    for (int32_t p = 0; p < step.seq_len[r]; ++p) {
      const int64_t place = int64_t{table[p / page_size]} * page_size + p % page_size;
      sum = attend(sum, pages[place], p);
    }
    write_logits(sum, state, vocab_size, io.logits + int64_t{l} * vocab_size);
  }
}

}  // namespace

FakeModel::FakeModel(const FakeModelOptions& options) {
  config_.architecture = "FakeForCausalLM";
  config_.num_layers = 1;
  config_.vocab_size = options.vocab_size;
  config_.max_position_embeddings = options.max_position_embeddings;
  config_.eos_token_ids = options.eos_token_ids;
}

const ops::Backend& FakeModel::backend() const { return ops::cpu_backend(); }

int64_t FakeModel::page_bytes(const model::CacheSpec& spec) const {
  return spec.page_size * static_cast<int64_t>(sizeof(uint64_t));
}

int64_t FakeModel::slot_bytes(const model::CacheSpec&) const { return sizeof(uint64_t); }

int64_t FakeModel::workspace_bytes(const metadata::Limits&) const { return 64; }

void FakeModel::forward(Stream& stream, model::Cache& cache, const model::StepIo& io) const {
  static_cast<CpuStream&>(stream).run([this, &cache, io](ThreadPool&) {
    if (on_step) on_step(io.step);
    for (int32_t r = 0; r < io.step.counts->num_rows; ++r) {
      run_row(io.step, r, cache, io, config_.vocab_size);
    }
  });
}

std::vector<float> fake_logits(std::span<const int32_t> tokens, int32_t vocab_size) {
  uint64_t state = 0;
  uint64_t sum = 0;
  int32_t position = 0;
  for (const int32_t token : tokens) {
    state = next_state(state, token);
    sum = attend(sum, page_entry(token, position), position);
    ++position;
  }
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  write_logits(sum, state, vocab_size, logits.data());
  return logits;
}

std::vector<int32_t> fake_answer(const Request& request, const FakeModelOptions& model,
                                 int32_t max_model_len) {
  std::vector<int32_t> tokens = request.prompt_token_ids;
  std::vector<int32_t> answer;
  std::vector<int32_t> scratch;
  std::vector<int32_t> stops = request.stop_token_ids;
  if (!request.ignore_eos) {
    stops.insert(stops.end(), model.eos_token_ids.begin(), model.eos_token_ids.end());
  }
  const auto room = max_model_len - static_cast<int32_t>(tokens.size());
  const int32_t most = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
  ops::RowSampling sampling{.temperature = request.sampling.temperature,
                            .top_p = request.sampling.top_p,
                            .top_k = request.sampling.top_k,
                            .choice_index = request.sampling.choice_index,
                            .seed = request.sampling.seed};
  while (static_cast<int32_t>(answer.size()) < most) {
    const std::vector<float> logits = fake_logits(tokens, model.vocab_size);
    sampling.output_position = static_cast<int32_t>(answer.size());
    const int32_t token = ops::sample_token(logits.data(), model.vocab_size, sampling, 0, scratch);
    answer.push_back(token);
    tokens.push_back(token);
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
  }
  return answer;
}

}  // namespace headrace::test
