// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any text as a chat template.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::text;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  if (find_invalid_utf8(source) != std::string_view::npos) return 0;
  const auto block = jinja::parse_template(source, {"messages", "add_generation_prompt"});
  if (!block.ok()) return 0;
  const jinja::Value message(jinja::Map{{"role", jinja::Value(std::string("user"))},
                                        {"content", jinja::Value(std::string(" Hi\n"))}});
  jinja::RenderLimits limits;
  limits.max_steps = 10'000;
  limits.max_output_bytes = 1 << 16;
  (void)jinja::render(*block,
                      {{"messages", jinja::Value(jinja::List(2, message))},
                       {"add_generation_prompt", jinja::Value(true)}},
                      limits);
  return 0;
}
