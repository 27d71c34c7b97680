// SPDX-License-Identifier: Apache-2.0
// Any text at all: the parser answers with a config whose values are sane or with an error. The
// first zero byte divides config.json from generation_config.json.
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t divider = text.find('\0');
  const auto config = headrace::model::parse_config(
      text.substr(0, divider), divider == std::string::npos ? "" : text.substr(divider + 1));
  if (!config.ok()) {
    if (config.status().message().empty()) __builtin_trap();
    return 0;
  }
  if (config->layers.size() != static_cast<size_t>(config->num_layers)) __builtin_trap();
  if (config->num_q_heads % config->num_kv_heads != 0) __builtin_trap();
  return 0;
}
