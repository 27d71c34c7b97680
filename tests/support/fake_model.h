// SPDX-License-Identifier: Apache-2.0
// A model for tests of the engine: no weights, but logits that depend on every token of the
// sequence twice, once through the pages (as attention would see them) and once through the slot
// (as a recurrence would). A wrong page, a stale slot, a token at the wrong position, missing or
// computed twice changes every token that follows. fake_logits() says what is right, from the
// tokens alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headrace/request.h"
#include "model/model.h"

namespace headrace::test {

struct FakeModelOptions {
  int32_t vocab_size = 61;
  int32_t max_position_embeddings = 4096;
  std::vector<int32_t> eos_token_ids = {};
};

class FakeModel final : public model::Model {
 public:
  explicit FakeModel(const FakeModelOptions& options);

  const model::ModelConfig& config() const override { return config_; }
  const ops::Backend& backend() const override;
  int64_t page_bytes(const model::CacheSpec& spec) const override;
  int64_t slot_bytes(const model::CacheSpec& spec) const override;
  int64_t weight_bytes() const override { return 0; }
  int64_t workspace_bytes(const metadata::Limits& limits) const override;
  void forward(Stream& stream, model::Cache& cache, const model::StepIo& io) const override;

  // Called in every step, on the thread that runs it, before anything is computed. May throw.
  std::function<void(const metadata::StepView&)> on_step;

 private:
  model::ModelConfig config_;
};

// The logits after these tokens.
std::vector<float> fake_logits(std::span<const int32_t> tokens, int32_t vocab_size);

// What a request must produce: the generated tokens, a stop token included.
std::vector<int32_t> fake_answer(const Request& request, const FakeModelOptions& model,
                                 int32_t max_model_len);

}  // namespace headrace::test
