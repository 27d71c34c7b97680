// SPDX-License-Identifier: Apache-2.0
// `headrace tokenize`: text to ids and back.
#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json_reports.h"
#include "cli/text_input.h"

namespace headrace::cli {
namespace {

Status check_ids(const std::vector<int32_t>& ids, const Tokenizer& tokenizer) {
  for (int32_t id : ids) {
    if (id < tokenizer.vocab_size()) continue;
    return invalid_argument(fmt::format("token id {} is not in the vocabulary: ids end at {}", id,
                                        tokenizer.vocab_size() - 1));
  }
  return {};
}

Result<std::string> report(const TokenizeOptions& options) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string input,
                            read_text(options.input, options.decode ? "ids" : "text"));
  HEADRACE_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::load(options.model));
  if (options.decode) {
    HEADRACE_ASSIGN_OR_RETURN(const auto ids, parse_token_ids(input));
    HEADRACE_RETURN_IF_ERROR(check_ids(ids, *tokenizer));
    const std::string text = tokenizer->decode(ids, options.skip_special_tokens);
    return options.json ? tokens_json(text, ids, *tokenizer) : text;
  }
  HEADRACE_ASSIGN_OR_RETURN(
      const auto ids,
      tokenizer->encode(input, {.add_special_tokens = options.add_special_tokens,
                                .parse_special_tokens = options.parse_special_tokens}));
  if (options.json) return tokens_json(input, ids, *tokenizer);
  return fmt::format("{}\n", fmt::join(ids, " "));
}

}  // namespace

int tokenize(const TokenizeOptions& options) {
  const auto text = report(options);
  return text.ok() ? print_output(*text) : fail(text.status());
}

}  // namespace headrace::cli
