// SPDX-License-Identifier: Apache-2.0
// `headrace generate`: from options to text. What happens while the request runs is in
// generation.cc.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/generation.h"
#include "cli/json_reports.h"
#include "cli/text_input.h"

namespace headrace::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options) {
  const ProgressLine progress(fmt::format("loading {} ...", options.model));
  return Engine::load(options);
}

Result<std::string> chat_text(const Engine& engine, const GenerateOptions& options) {
  HEADRACE_ASSIGN_OR_RETURN(const auto chat_template, engine.chat_template());
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.message});
  return chat_template->render(messages, /*add_generation_prompt=*/true);
}

Result<std::vector<int32_t>> prompt_ids(const Engine& engine, const GenerateOptions& options,
                                        std::string text) {
  const auto tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) {
    return not_found(fmt::format("{} has no tokenizer.json, which a prompt needs: put one there",
                                 options.engine.model));
  }
  if (options.chat) {
    HEADRACE_ASSIGN_OR_RETURN(text, chat_text(engine, options));
  }
  // A chat template writes the beginning-of-sequence token itself.
  const auto ids = tokenizer->encode(text, {.add_special_tokens = !options.chat});
  if (!ids.ok()) return ids.status().with_context("prompt");
  if (ids->empty()) {
    return invalid_argument("the prompt is empty: give at least one token to continue");
  }
  return *ids;
}

}  // namespace

int generate(const GenerateOptions& options, Interrupts& interrupts) {
  // Before the model, so that a mistyped file name costs no waiting.
  const auto text = read_text(options.prompt, "prompt");
  if (!text.ok()) return fail(text.status());

  const auto load_start = std::chrono::steady_clock::now();
  const auto engine = load_engine(options.engine);
  if (!engine.ok()) return fail(engine.status());
  const double load_s = seconds_since(load_start);

  const auto ids = prompt_ids(**engine, options, *text);
  if (!ids.ok()) return fail(ids.status());

  Request request;
  request.prompt_token_ids = *ids;
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.ignore_eos = options.ignore_eos;

  interrupts.be_graceful();
  Output output(STDOUT_FILENO, interrupts.signal_fd());
  const Generation generation =
      run_request(**engine, std::move(request), /*streaming=*/!options.json, output, interrupts);
  if (generation.output_closed) return kExitPipeClosed;
  if (!generation.status.ok()) return fail(generation.status);

  if (options.json) {
    const int code = print_output(generation_json(options, *ids, generation, load_s));
    if (code != kExitOk) return code;
  } else {
    print_note(statistics_line(generation.statistics));
  }
  return generation.signal == 0 ? kExitOk : exit_code_of_signal(generation.signal);
}

}  // namespace headrace::cli
