// SPDX-License-Identifier: Apache-2.0
// Generates text with the installed library: example MODEL_FOLDER PROMPT
#include <cstdio>

#include "headrace/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: example MODEL_FOLDER PROMPT\n"), 2;
  auto engine = headrace::Engine::load({.model = argv[1]});
  if (!engine.ok()) return std::fprintf(stderr, "%s\n", engine.status().message().c_str()), 1;
  auto ids = (*engine)->tokenizer()->encode(argv[2]);
  if (!ids.ok()) return std::fprintf(stderr, "%s\n", ids.status().message().c_str()), 1;
  auto request = (*engine)->submit(
      {.prompt_token_ids = *ids, .max_tokens = 12},
      [](const headrace::RequestUpdate& update) { std::fputs(update.text.c_str(), stdout); });
  if (!request.ok()) return std::fprintf(stderr, "%s\n", request.status().message().c_str()), 1;
  (*engine)->wait_idle();
  std::puts("");
  return 0;
}
