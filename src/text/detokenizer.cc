// SPDX-License-Identifier: Apache-2.0
// Ids to text as they come: a code point is given out when its last byte has come.
#include <utility>

#include "headrace/tokenizer.h"
#include "text/utf8.h"

namespace headrace {

StreamingDetokenizer::StreamingDetokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                                           bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}
StreamingDetokenizer::~StreamingDetokenizer() = default;
StreamingDetokenizer::StreamingDetokenizer(StreamingDetokenizer&&) noexcept = default;
StreamingDetokenizer& StreamingDetokenizer::operator=(StreamingDetokenizer&&) noexcept = default;

std::string StreamingDetokenizer::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  pending_ += tokenizer_->token_bytes(id);
  std::string text;
  pending_.erase(0, text::append_repaired_utf8(pending_, true, text));
  return text;
}

std::string StreamingDetokenizer::finish() {
  std::string text;
  text::append_repaired_utf8(std::exchange(pending_, {}), false, text);
  return text;
}

}  // namespace headrace
