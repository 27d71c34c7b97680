// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as tokenizer.json, or as the text that a loaded one encodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/bpe_tokenizer.h"

namespace {

constexpr std::string_view kText = "Hello <s> e\xCC\x81 \xE6\xAF\x95 123's\r\n  x";

void require(bool condition) {
  if (!condition) std::abort();
}

void exercise(const headrace::Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse : {false, true}) {
    headrace::Tokenizer::EncodeOptions options;
    options.parse_special_tokens = parse;
    const auto ids = tokenizer.encode(text, options);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) require(id >= 0 && id < tokenizer.vocab_size());
    (void)tokenizer.decode(*ids, parse);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // A zero byte parts the file from the text; a JSON file holds none.
  const size_t zero = input.find('\0');
  const auto tokenizer = headrace::text::make_bpe_tokenizer(input.substr(0, zero));
  require(tokenizer.ok() || !tokenizer.status().message().empty());
  if (!tokenizer.ok()) return 0;
  exercise(**tokenizer, kText);
  if (zero != std::string_view::npos) exercise(**tokenizer, input.substr(zero + 1));
  return 0;
}
