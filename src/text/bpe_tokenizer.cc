// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "text/byte_level.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

// What is looked for in the text, and what the token decodes to.
std::string text_of(const AddedToken& token, bool nfc) {
  if (token.normalized && nfc) {
    // A content that cannot be normalised stays as it is.
    if (auto normalized = normalize_nfc(token.content); normalized.ok()) return *normalized;
  }
  return token.content;
}

AddedTokenMatcher make_matcher(const TokenizerParts& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : parts.added_tokens) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    tokens.back().content = text_of(token, parts.nfc);
  }
  return AddedTokenMatcher(std::move(tokens));
}

}  // namespace

BpeTokenizer::BpeTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)),
      raw_matcher_(make_matcher(parts_, false)),
      normalized_matcher_(make_matcher(parts_, true)) {
  const StringTable& tokens = parts_.model.vocabulary.tokens();
  for (int32_t id = 0; id < tokens.size(); ++id) {
    if (tokens.contains(id)) bytes_.add(id, spelled_bytes(tokens.get(id)));
  }
  // An added token that the vocabulary lacks decodes to its own text, whatever its characters would
  // spell.
  for (const AddedToken& token : parts_.added_tokens) {
    added_ids_.emplace(token.content, token.id);
    if (!bytes_.contains(token.id)) bytes_.add(token.id, text_of(token, parts_.nfc));
  }
  special_.resize(static_cast<size_t>(bytes_.size()));
  for (const AddedToken& token : parts_.added_tokens) {
    special_[static_cast<size_t>(token.id)] = token.special;
  }
}

Result<std::shared_ptr<const Tokenizer>> BpeTokenizer::create(TokenizerParts parts) {
  return std::shared_ptr<const Tokenizer>(new BpeTokenizer(std::move(parts)));
}

Result<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(std::string_view content) {
  HEADRACE_ASSIGN_OR_RETURN(TokenizerParts parts, read_tokenizer_json(content));
  return BpeTokenizer::create(std::move(parts));
}

Result<std::vector<int32_t>> BpeTokenizer::encode(std::string_view text,
                                                  const EncodeOptions& options) const {
  try {
    return encode_text(text, options);
  } catch (const std::bad_alloc&) {
    return resource_exhausted(
        fmt::format("no memory to tokenize {} bytes of text; shorten it", text.size()));
  }
}

Result<std::vector<int32_t>> BpeTokenizer::encode_text(std::string_view text,
                                                       const EncodeOptions& options) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return invalid_argument(
        fmt::format("text of {} bytes is longer than 2 GiB; split it", text.size()));
  }
  if (const size_t at = find_invalid_utf8(text); at != std::string_view::npos) {
    return invalid_argument(
        fmt::format("text is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8", at,
                    static_cast<uint8_t>(text[at])));
  }
  const bool skip_special = !options.parse_special_tokens;
  BpeEncoder encoder(parts_.model);
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = parts_.prefix_ids;
  std::vector<Segment> segments;
  raw_matcher_.split(text, skip_special, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else if (parts_.nfc) {
      HEADRACE_ASSIGN_OR_RETURN(const std::string normalized, normalize_nfc(segment.text));
      HEADRACE_RETURN_IF_ERROR(encode_normalized(normalized, skip_special, encoder, ids));
    } else {
      HEADRACE_RETURN_IF_ERROR(encode_normalized(segment.text, skip_special, encoder, ids));
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_.suffix_ids.begin(), parts_.suffix_ids.end());
  }
  return ids;
}

Status BpeTokenizer::encode_normalized(std::string_view text, bool skip_special,
                                       BpeEncoder& encoder, std::vector<int32_t>& ids) const {
  std::vector<Segment> segments;
  normalized_matcher_.split(text, skip_special, segments);
  Words words;
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    HEADRACE_RETURN_IF_ERROR(parts_.pre_tokenizer.split(segment.text, words));
    for (const std::string_view word : words.pieces) encoder.encode(word, ids);
  }
  return {};
}

std::string BpeTokenizer::decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special_tokens || !is_special(id)) bytes.append(bytes_.get(id));
  }
  std::string text;
  append_repaired_utf8(bytes, false, text);
  return text;
}

std::string BpeTokenizer::token_bytes(int32_t id) const { return std::string(bytes_.get(id)); }

bool BpeTokenizer::is_special(int32_t id) const {
  return bytes_.contains(id) && special_[static_cast<size_t>(id)];
}

int32_t BpeTokenizer::token_id(std::string_view token) const {
  const auto added = added_ids_.find(std::string(token));
  return added != added_ids_.end() ? added->second : parts_.model.vocabulary.find(token);
}

}  // namespace headrace::text
