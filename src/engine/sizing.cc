// SPDX-License-Identifier: Apache-2.0
#include "engine/sizing.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/thread_pool.h"
#include "metadata/row.h"

namespace headrace::engine {
namespace {

// Of the free memory, what pages and slots may take when nobody says: the rest is for activations,
// the tokenizer, and the machine's other users. Memory that no request touches stays untouched.
constexpr double kShareOfFreeMemory = 0.5;
constexpr int64_t kMarginBytes = int64_t{64} << 20;

// Slots may take up to this share where both pools compete.
constexpr double kShareOfSlots = 0.5;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string mebibytes(int64_t size_bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(size_bytes) / (1 << 20));
}

Status check_at_least(int64_t value, int64_t least, const char* option, const char* flag) {
  if (value >= least) return {};
  return invalid_argument(
      fmt::format("{} ({}) is {}: use at least {}", option, flag, value, least));
}

class Sizing {
 public:
  Sizing(const EngineOptions& options, const ModelSizes& model, int64_t available_bytes)
      : model_(model),
        budget_bytes_(options.memory_bytes > 0
                          ? options.memory_bytes
                          : static_cast<int64_t>(static_cast<double>(std::max<int64_t>(
                                                     available_bytes - kMarginBytes, 0)) *
                                                 kShareOfFreeMemory)),
        asked_(options),
        sizes_{options, 0, false} {}

  Result<EngineSizes> run() {
    if (sizes_.options.num_threads == 0) sizes_.options.num_threads = available_cores();
    HEADRACE_RETURN_IF_ERROR(choose_context());
    choose_slots();
    choose_pages();
    return sizes_;
  }

 private:
  int64_t pages_for(int64_t tokens) const { return ceil_div(tokens, asked_.page_size); }
  // One sequence of so many tokens, with the null page and the null slot.
  int64_t bytes_for_one(int64_t tokens) const {
    return (pages_for(tokens) + 1) * model_.page_bytes + 2 * model_.slot_bytes;
  }
  // The longest sequence that the budget holds; 0 if none.
  int64_t tokens_that_fit() const {
    if (model_.page_bytes == 0) return model_.max_position_embeddings;
    const int64_t pages = (budget_bytes_ - 2 * model_.slot_bytes) / model_.page_bytes - 1;
    return std::max<int64_t>(pages, 0) * asked_.page_size;
  }

  Status choose_context() {
    int32_t& context = sizes_.options.max_model_len;
    if (asked_.max_model_len > model_.max_position_embeddings) {
      return invalid_argument(fmt::format(
          "max_model_len (--max-model-len) is {} but the model has {} positions: use "
          "at most {}",
          asked_.max_model_len, model_.max_position_embeddings, model_.max_position_embeddings));
    }
    if (context == 0) context = model_.max_position_embeddings;
    if (asked_.num_pages > 0) return fit_context_to_pages();
    return fit_context_to_memory();
  }

  Status fit_context_to_pages() {
    int32_t& context = sizes_.options.max_model_len;
    const int64_t fits = int64_t{asked_.num_pages} * asked_.page_size;
    if (fits < context) {
      if (asked_.max_model_len > 0 || fits < 2) {
        return invalid_argument(fmt::format(
            "{} pages (--num-pages) of {} tokens hold {} tokens, fewer than max_model_len "
            "(--max-model-len) {}: use at least --num-pages {}{}",
            asked_.num_pages, asked_.page_size, fits, context, pages_for(context),
            fits < 2 ? "" : fmt::format(" or at most --max-model-len {}", fits)));
      }
      context = static_cast<int32_t>(fits);
      sizes_.is_context_cut = true;
    }
    const int64_t needed =
        (int64_t{asked_.num_pages} + 1) * model_.page_bytes + 2 * model_.slot_bytes;
    if (needed <= budget_bytes_) return {};
    const int64_t pages = tokens_that_fit() / asked_.page_size;
    return no_memory(fmt::format("{} pages (--num-pages)", asked_.num_pages), needed,
                     pages > 0 ? fmt::format("use at most --num-pages {}", pages) : "");
  }

  Status fit_context_to_memory() {
    int32_t& context = sizes_.options.max_model_len;
    const int64_t needed = bytes_for_one(context);
    if (needed <= budget_bytes_) return {};
    const int64_t fits = tokens_that_fit();
    if (asked_.max_model_len == 0 && fits >= 2) {
      context = static_cast<int32_t>(fits);
      sizes_.is_context_cut = true;
      return {};
    }
    return no_memory(
        fmt::format("one sequence of max_model_len (--max-model-len) {} tokens", context), needed,
        fits >= 2 ? fmt::format("use at most --max-model-len {}", fits) : "");
  }

  Status no_memory(const std::string& what, int64_t needed, const std::string& what_fits) const {
    const std::string source =
        asked_.memory_bytes > 0
            ? fmt::format("memory_bytes (--memory-bytes) allows {}", mebibytes(budget_bytes_))
            : fmt::format("{} of the free memory may be used", mebibytes(budget_bytes_));
    const std::string otherwise =
        asked_.memory_bytes > 0
            ? fmt::format("raise --memory-bytes to at least {}", needed)
            : fmt::format("set --memory-bytes to at least {} if that much is free", needed);
    return resource_exhausted(fmt::format("no memory for {}: it needs {} and {}: {}{}{}", what,
                                          mebibytes(needed), source, what_fits,
                                          what_fits.empty() ? "" : ", or ", otherwise));
  }

  void choose_slots() {
    sizes_.num_slots = asked_.max_num_seqs;
    if (model_.slot_bytes == 0) return;
    // What one sequence needs in pages is set aside before slots take their share.
    const int64_t one = bytes_for_one(sizes_.options.max_model_len) - 2 * model_.slot_bytes;
    const auto share = static_cast<int64_t>(static_cast<double>(budget_bytes_) * kShareOfSlots);
    const int64_t most = std::min(budget_bytes_ - std::max(one, pages_asked_bytes()),
                                  std::max(share, 2 * model_.slot_bytes)) /
                             model_.slot_bytes -
                         1;
    sizes_.num_slots =
        static_cast<int32_t>(std::clamp<int64_t>(most, 1, int64_t{asked_.max_num_seqs}));
  }

  int64_t pages_asked_bytes() const {
    return asked_.num_pages == 0 ? 0 : (int64_t{asked_.num_pages} + 1) * model_.page_bytes;
  }

  // As many as all rows could ever use, or as many as fit.
  void choose_pages() {
    if (asked_.num_pages > 0) return;
    const int64_t of_one = pages_for(sizes_.options.max_model_len);
    int64_t pages = std::min<int64_t>(of_one * sizes_.num_slots, kMaxPages);
    if (model_.page_bytes > 0) {
      const int64_t left = budget_bytes_ - (int64_t{sizes_.num_slots} + 1) * model_.slot_bytes;
      pages = std::min(pages, left / model_.page_bytes - 1);
    }
    sizes_.options.num_pages = static_cast<int32_t>(std::max(pages, of_one));
  }

  static constexpr int64_t kMaxPages = int64_t{1} << 30;

  const ModelSizes& model_;
  const int64_t budget_bytes_;
  const EngineOptions& asked_;
  EngineSizes sizes_;
};

}  // namespace

Status check_options(const EngineOptions& options) {
  HEADRACE_RETURN_IF_ERROR(check_at_least(options.num_threads, 0, "num_threads", "--threads"));
  HEADRACE_RETURN_IF_ERROR(
      check_at_least(options.max_model_len, 0, "max_model_len", "--max-model-len"));
  HEADRACE_RETURN_IF_ERROR(check_at_least(options.num_pages, 0, "num_pages", "--num-pages"));
  HEADRACE_RETURN_IF_ERROR(
      check_at_least(options.max_num_seqs, 1, "max_num_seqs", "--max-num-seqs"));
  HEADRACE_RETURN_IF_ERROR(check_at_least(options.max_queued_requests, 1, "max_queued_requests",
                                          "--max-queued-requests"));
  HEADRACE_RETURN_IF_ERROR(
      check_at_least(options.memory_bytes, 0, "memory_bytes", "--memory-bytes"));
  const int32_t page = options.page_size;
  if (page != 1 && page != 8 && (page <= 0 || page % 16 != 0 || page > 1024)) {
    return invalid_argument(fmt::format(
        "page_size (--page-size) is {}: use 1, 8 or a multiple of 16 up to 1024", page));
  }
  // A chunk of a prompt must fit, and so must one token of every sequence.
  return check_at_least(options.max_num_batched_tokens,
                        std::max(metadata::kChunkTokens, options.max_num_seqs),
                        "max_num_batched_tokens", "--max-num-batched-tokens");
}

Result<EngineSizes> resolve_sizes(const EngineOptions& options, const ModelSizes& model,
                                  int64_t available_bytes) {
  HEADRACE_RETURN_IF_ERROR(check_options(options));
  return Sizing(options, model, available_bytes).run();
}

}  // namespace headrace::engine
