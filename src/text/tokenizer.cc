// SPDX-License-Identifier: Apache-2.0
// Tokenizer::load: finds and reads the file; what it means is tokenizer_json's business.
#include "headrace/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "text/bpe_tokenizer.h"
#include "text/text_file.h"

namespace headrace {
namespace {

Status no_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "tokenizer.model", ignored)) {
    return unsupported(fmt::format(
        "{} has a SentencePiece tokenizer.model and no tokenizer.json: SentencePiece is not "
        "supported; use a model with a byte-level BPE tokenizer.json",
        folder.string()));
  }
  if (std::filesystem::exists(folder / "merges.txt", ignored)) {
    return unsupported(
        fmt::format("{} has merges.txt and no tokenizer.json; make one with "
                    "transformers.AutoTokenizer.from_pretrained(...).save_pretrained(...)",
                    folder.string()));
  }
  return not_found(
      fmt::format("no tokenizer.json in {}; copy it from the model's page", folder.string()));
}

Result<std::shared_ptr<const Tokenizer>> load_file(const std::filesystem::path& path) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string content, text::read_text_file(path));
  auto tokenizer = text::make_bpe_tokenizer(content);
  if (!tokenizer.ok()) return tokenizer.status().with_context(path.string());
  return tokenizer;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path) {
  try {
    std::filesystem::path file(path);
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) {
      if (!std::filesystem::exists(file / "tokenizer.json", ignored)) return no_tokenizer(file);
      file /= "tokenizer.json";
    }
    return load_file(file);
  } catch (const std::bad_alloc&) {
    return resource_exhausted(path + ": no memory to load the tokenizer");
  }
}

}  // namespace headrace
