// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

namespace headrace::cli {
namespace {

constexpr OptionSpec kModel = {"--model", "FOLDER", "", "Model",
                               "folder with config.json, *.safetensors and tokenizer.json"};

VerbSpec generate_verb() {
  return {
      "generate",
      "continue a prompt or answer a chat message",
      "",
      "Writes the generated text, and nothing else, to standard output as it comes; one line of\n"
      "statistics follows on standard error. The prompt is not repeated. A text that does not end\n"
      "with a line break gets one. Without --prompt, --prompt-file and --chat the prompt is read\n"
      "from standard input, unless that is a terminal.",
      {
          kModel,
          {"--load-format", "FORMAT", "auto", "Model",
           "auto or safetensors: weights from the folder;\n"
           "dummy: seeded random weights from config.json alone"},
          {"--device", "DEVICE", "auto", "Model",
           "auto or cpu: the CPU; cuda: an error, since this version\nruns no model on a GPU"},
          {"--dtype", "TYPE", "auto", "Model",
           "type of weights and KV cache: auto (as stored), bf16, fp16\nor fp32"},
          {"--max-model-len", "N", "0", "Model",
           "tokens of prompt and output together; 0: the model's"},
          {"--page-size", "N", "16", "Model",
           "tokens in a page of the KV cache: 1, 8 or a multiple of 16\nup to 1024"},
          {"--num-pages", "N", "0", "Model", "pages of the KV cache; 0: chosen from free memory"},
          {"--memory-bytes", "N", "0", "Model",
           "bytes for KV cache and states together; 0: half of what is\nfree"},
          {"--threads", "N", "0", "Model", "CPU threads; 0: every core this process may use"},
          {"--prompt", "TEXT", "", "Prompt", "text to continue"},
          {"--prompt-file", "FILE", "", "Prompt",
           "the same from a file, byte for byte; - is standard input"},
          {"--chat", "MESSAGE", "", "Prompt",
           "a user's message, put into the model's chat template"},
          {"--system", "TEXT", "", "Prompt", "system message in front of it, with --chat only"},
          {"--max-tokens", "N", "128", "Sampling",
           "tokens to generate at most; 0: until the context is full"},
          {"--temperature", "T", "0", "Sampling", "0 takes the likeliest token every time"},
          {"--top-k", "N", "0", "Sampling", "draw from the N likeliest tokens; 0: from all"},
          {"--top-p", "P", "1", "Sampling",
           "draw from the likeliest tokens that together have\nprobability P, over 0 up to 1"},
          {"--seed", "N", "0", "Sampling", "equal seeds draw equal tokens"},
          {"--ignore-eos", "", "", "Sampling", "go on after an end-of-sequence token"},
          {"--json", "", "", "Output",
           "one JSON object at the end instead of text: text, tokens,\nreason to stop, timings"},
      },
      "  headrace generate --model models/demo --prompt $'Ge 1\\nIn the beginning'\n"
      "  headrace generate --model models/demo --chat 'Ge 1:1'\n"
      "  printf 'And God said' | headrace generate --model models/demo --prompt-file -\n"
      "  HEADRACE_MODEL=models/demo headrace generate --prompt 'And it came' --temperature 0.8\n"};
}

VerbSpec tokenize_verb() {
  return {
      "tokenize",
      "turn text into token ids, or ids into text",
      "TEXT",
      "Writes the token ids of TEXT in one line, or the text of --ids. Without any of them the\n"
      "text is read from standard input, unless that is a terminal.",
      {
          {kModel.name, kModel.value, "", "Model", "folder with tokenizer.json, or that file"},
          {"--prompt-file", "FILE", "", "Input",
           "text from a file, byte for byte; - is standard input"},
          {"--ids", "IDS", "", "Input",
           "decode: ids with blanks or commas between them; - reads\nthem from standard input"},
          {"--no-add-special-tokens", "", "", "Special tokens",
           "do not add what the tokenizer puts around a text, such\nas a beginning-of-sequence "
           "token"},
          {"--no-parse-special-tokens", "", "", "Special tokens",
           "<|im_end|> and the like in the text are plain text"},
          {"--skip-special-tokens", "", "", "Special tokens",
           "leave special tokens out of the decoded text"},
          {"--json", "", "", "Output", "one JSON object: text, token_ids and each token's text"},
      },
      "  headrace tokenize --model models/demo 'In the beginning'\n"
      "  headrace tokenize --model models/demo --json --prompt-file chapter.txt\n"
      "  headrace tokenize --model models/demo --ids '332 279 1040'\n"};
}

VerbSpec doctor_verb() {
  return {"doctor",
          "say what this machine offers and what is missing",
          "",
          "Reports processor, memory, GPU and driver, and what to do about what is missing. Fails\n"
          "only if Headrace cannot work here at all.",
          {{"--json", "", "", "Output", "one JSON object"}},
          "  headrace doctor\n"
          "  headrace doctor --json\n"};
}

}  // namespace

const OptionSpec* VerbSpec::find(std::string_view option) const {
  for (const OptionSpec& spec : options) {
    if (spec.name == option) return &spec;
  }
  return nullptr;
}

const std::vector<VerbSpec>& verbs() {
  static const std::vector<VerbSpec> table = {generate_verb(), tokenize_verb(), doctor_verb()};
  return table;
}

const VerbSpec* find_verb(std::string_view name) {
  for (const VerbSpec& verb : verbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

std::string environment_name(std::string_view option) {
  std::string name = "HEADRACE";
  // The two dashes in front become the one underscore after HEADRACE.
  for (char c : option.substr(1)) {
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

}  // namespace headrace::cli
