// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, and the chat template of a model folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.h"

namespace headrace {

// Byte-level BPE as described by a Hugging Face tokenizer.json. Immutable, safe to share between
// threads.
class Tokenizer {
 public:
  // `path` is a tokenizer.json or a folder that has one.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& path);

  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool add_special_tokens = true;    // what the post-processor adds, e.g. BOS
    bool parse_special_tokens = true;  // "<|im_end|>" in the text becomes its one id
  };
  // Invalid UTF-8 is an error that names the byte offset.
  virtual Result<std::vector<int32_t>> encode(std::string_view text,
                                              const EncodeOptions& options) const = 0;
  Result<std::vector<int32_t>> encode(std::string_view text) const { return encode(text, {}); }

  // Bytes that are no valid UTF-8 become U+FFFD. Unknown ids are skipped.
  virtual std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;
  // The raw bytes of one token, which may be part of a code point; empty for an unknown id.
  virtual std::string token_bytes(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  // −1 if there is no such token.
  virtual int32_t token_id(std::string_view token) const = 0;
  // Largest id + 1.
  virtual int32_t vocab_size() const = 0;
};

// Turns ids into text piece by piece and never gives out half a code point.
class StreamingDetokenizer {
 public:
  StreamingDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);
  ~StreamingDetokenizer();
  StreamingDetokenizer(StreamingDetokenizer&&) noexcept;
  StreamingDetokenizer& operator=(StreamingDetokenizer&&) noexcept;

  // Text that became complete with this token, possibly empty.
  std::string push(int32_t id);
  // What is still held back; incomplete bytes become U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The chat template of a model folder. Immutable, safe to share between threads.
class ChatTemplate {
 public:
  // Reads chat_template.jinja, or chat_template in tokenizer_config.json. A folder without one is
  // kNotFound; a template that uses what is not implemented is kUnsupported and says what.
  static Result<std::shared_ptr<const ChatTemplate>> load(const std::string& folder);

  virtual ~ChatTemplate() = default;
  virtual Result<std::string> render(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt) const = 0;
};

}  // namespace headrace
