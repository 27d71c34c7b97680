// SPDX-License-Identifier: Apache-2.0
// Paged attention for engines that keep their own batches: a plan over the arrays that such engines
// have on the GPU, and attention of a layer that follows it.
//
//   HEADRACE_ASSIGN_OR_RETURN(PagedAttention attention, PagedAttention::create(options));
//   attention.plan({.page_indptr = …, .page_indices = …, .last_page_len = …, .num_rows = B},
//   stream); for (layer …) attention.run({.q = …, .keys = …, .values = …, .out = …, …}, stream);
//
// plan() launches kernels: it copies nothing from or to the host, waits for nothing and allocates
// nothing, and neither does run(). Both may be captured into a CUDA graph and replayed after the
// arrays on the GPU have changed, with any lengths within the options' maxima.
// docs/paged_attention.md has a whole example.
//
// `stream` is a cudaStream_t everywhere. An object belongs to one thread and one stream at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headrace/dtype.h"
#include "headrace/status.h"

namespace headrace {

struct PagedAttentionOptions {
  int32_t num_q_heads = 0;        // Hq
  int32_t num_kv_heads = 0;       // Hkv; Hq / Hkv is 1…16
  int32_t head_dim = 0;           // D; fastest: 64, 128, 256
  DType io_dtype = DType::kBF16;  // of q and out: bf16, fp16 or fp32
  DType kv_dtype = DType::kBF16;  // the same, or fp8_e4m3
  int32_t page_size = 16;         // tokens; 1, 8 or a multiple of 16 up to 1024
  int32_t num_pages = 0;          // of the cache; page numbers are below it
  int32_t max_rows = 0;           // R, sequences of a batch
  int32_t max_tokens = 0;         // T, query tokens of a batch
  int32_t max_pages_per_row = 0;  // P
  // Rows of up to so many query tokens (1…16) are decoded, longer ones are prefilled.
  int32_t max_decode_query_len = 1;
  bool decode_only = false;     // no longer rows: saves their launches; such a row counts as broken
  bool rows_have_keys = false;  // no row is empty or broken: saves a launch that makes zeros
  // Sliding windows of the layers, each once: keys that a query sees, itself included; 0 = all.
  std::vector<int32_t> windows = {0};
  // Programmatic dependent launch inside and before a layer's kernels. Pages of past tokens are
  // then read before what precedes run() has ended; see docs/paged_attention.md for when that is
  // safe.
  bool programmatic = false;
};

// A batch, in device memory. Row r brings query tokens query_indptr[r] … query_indptr[r + 1] − 1,
// which are the last of its sequence: they see all keys up to their own. The keys are in the pages
// when run() is called. A row may be empty: no keys make zeros (log-sum-exp −inf), no query tokens
// make nothing.
struct PagedBatch {
  const int32_t* query_indptr = nullptr;  // [num_rows + 1], from 0; null: one token a row
  // Either, as FlashInfer has it: pages page_indices[page_indptr[r] … page_indptr[r + 1] − 1], the
  // last of them with last_page_len[r] tokens (1…page_size; any for a row without pages).
  const int32_t* page_indptr = nullptr;    // [num_rows + 1]
  const int32_t* page_indices = nullptr;   // [num_page_indices]
  const int32_t* last_page_len = nullptr;  // [num_rows]
  int64_t num_page_indices = 0;  // entries that may be read; a row that points past them is broken
  // Or, as vLLM has it.
  const int32_t* block_table = nullptr;  // [num_rows, block_table_stride]
  int64_t block_table_stride = 0;
  const int32_t* seq_lens = nullptr;  // [num_rows] query tokens included

  int32_t num_rows = 0;  // ≤ max_rows; fixed when captured
  // T of the layers that follow this plan: tokens that their q and out hold, so as many as are
  // written, zeros behind the batch's. ≤ max_tokens; 0: max_tokens. Fixed when captured.
  int32_t num_tokens = 0;
  // [1] rows in use, at most num_rows; null: all. For graphs that are padded.
  const int32_t* num_rows_in_use = nullptr;
};

// Attention of one layer: o = softmax(scale · q Kᵀ [soft-capped] [+ sink]) V. Strides in elements;
// T is the batch's num_tokens.
struct PagedLayer {
  const void* q = nullptr;     // [T, Hq, D]
  int64_t q_stride = 0;        // from token to token; 0: Hq · D
  void* out = nullptr;         // [T, Hq, D]; zeros behind the batch's tokens
  int64_t out_stride = 0;      // 0: Hq · D
  float* lse = nullptr;        // [T, Hq] natural log of the sum of exp; may be null
  const void* keys = nullptr;  // page p, token t, head h at p·page_stride + t·token_stride + …
  const void* values = nullptr;  // the same strides
  int64_t page_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  const float* key_scale = nullptr;    // fp8: [1], or [Hkv] with scale_per_head; null = 1
  const float* value_scale = nullptr;  // the same
  bool scale_per_head = false;
  float scale = 0.0f;            // 0: 1 / √D
  float soft_cap = 0.0f;         // s ← cap · tanh(s / cap); 0 = none
  const float* sinks = nullptr;  // [Hq] logit of a virtual key with value 0; may be null
  int32_t window = 0;            // one of options.windows

  bool operator==(const PagedLayer&) const = default;
};

// What was wrong with batches so far. Broken lengths and pages are on the GPU, so plan() cannot
// return them: the row gives zeros and is counted. A broken query_indptr (not from 0, falling, past
// num_tokens, a row longer than its pages could be) leaves the batch without rows.
struct PagedAttentionErrors {
  int32_t broken_rows = 0;
  int32_t broken_batches = 0;
  int32_t last_broken_row = -1;
};

class PagedAttention {
 public:
  // Allocates all that plan() and run() use. kInvalidArgument names the option; kUnsupported: no
  // CUDA in this build, or types without kernels; kResourceExhausted.
  static Result<PagedAttention> create(const PagedAttentionOptions& options);

  PagedAttention(PagedAttention&&) noexcept;
  PagedAttention& operator=(PagedAttention&&) noexcept;
  ~PagedAttention();

  // kInvalidArgument: an array is missing, or num_rows is past max_rows.
  Status plan(const PagedBatch& batch, void* stream);
  // Follows the last plan() on the stream. kInvalidArgument or kUnsupported, with the reason.
  // Kernels are chosen, and tensor maps made, in the first call with other arguments; the last 256
  // such layers are remembered.
  Status run(const PagedLayer& layer, void* stream);

  // Waits for the stream.
  Result<PagedAttentionErrors> errors(void* stream) const;
  int64_t device_bytes() const;

 private:
  struct Impl;
  explicit PagedAttention(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
