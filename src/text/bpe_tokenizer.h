// SPDX-License-Identifier: Apache-2.0
// The Tokenizer of a tokenizer.json: its parts in the order in which a text passes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headrace/tokenizer.h"
#include "text/tokenizer_json.h"

namespace headrace::text {

// `content` is the text of a tokenizer.json.
Result<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(std::string_view content);

class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> create(TokenizerParts parts);

  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions& options) const override;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;
  std::string token_bytes(int32_t id) const override;
  bool is_special(int32_t id) const override;
  int32_t token_id(std::string_view token) const override;
  int32_t vocab_size() const override { return bytes_.size(); }

 private:
  explicit BpeTokenizer(TokenizerParts parts);

  Result<std::vector<int32_t>> encode_text(std::string_view text,
                                           const EncodeOptions& options) const;
  Status encode_normalized(std::string_view text, bool skip_special, BpeEncoder& encoder,
                           std::vector<int32_t>& ids) const;

  TokenizerParts parts_;
  AddedTokenMatcher raw_matcher_;         // added tokens with normalized = false
  AddedTokenMatcher normalized_matcher_;  // the others
  std::unordered_map<std::string, int32_t> added_ids_;
  StringTable bytes_;  // what each token decodes to
  std::vector<bool> special_;
};

}  // namespace headrace::text
