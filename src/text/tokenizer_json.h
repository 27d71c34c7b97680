// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a tokenizer.json. Splits no text.
#pragma once

#include <string_view>
#include <vector>

#include "headrace/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/json_access.h"
#include "text/pre_tokenizer.h"

namespace headrace::text {

// Larger ids are taken for a damaged file: the largest vocabularies have some 300,000 tokens.
inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;

struct TokenizerParts {
  BpeModel model;
  std::vector<AddedToken> added_tokens;  // special ones first, each content and id once
  bool nfc = false;
  PreTokenizer pre_tokenizer;
  std::vector<int32_t> prefix_ids;  // what the post-processor puts before a text, and after it
  std::vector<int32_t> suffix_ids;
};

// `content` is the text of the file. Messages do not name the file.
Result<TokenizerParts> read_tokenizer_json(std::string_view content);

// The sections of the file; `root` is the whole document.
Status read_bpe_model(const json::Object& root, BpeModel& model);
Status read_added_tokens(const json::Object& root, TokenizerParts& parts);
Status read_pre_tokenizer(const json::Object& root, PreTokenizer& pre_tokenizer);
Status read_post_processor(const json::Object& root, TokenizerParts& parts);

// An integer from 0 to kMaxTokenId.
Result<int32_t> read_token_id(json::element value, std::string_view path);

}  // namespace headrace::text
