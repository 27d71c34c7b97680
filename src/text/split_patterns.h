// SPDX-License-Identifier: Apache-2.0
// The word patterns of the GPT-2, Llama 3, Qwen2 and Qwen3.5 tokenizers, each as one pass over the
// text instead of a regular expression. Knows no file format.
#pragma once

#include <string_view>
#include <vector>

namespace headrace::text {

using Pieces = std::vector<std::string_view>;

// Appends the words of `text` (well-formed UTF-8); together they are the whole text.
using SplitFunction = void (*)(std::string_view text, Pieces& words);

extern const std::string_view kGpt2Pattern;
extern const std::string_view kLlama3Pattern;
extern const std::string_view kQwen2Pattern;
extern const std::string_view kQwen35Pattern;

void split_gpt2(std::string_view text, Pieces& words);

// The function of a pattern that is written exactly like one of the four, else null.
SplitFunction find_split_function(std::string_view pattern);

}  // namespace headrace::text
