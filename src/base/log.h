// SPDX-License-Identifier: Apache-2.0
// The log sink: one line a message on stderr, or wherever set_log_sink points.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string_view>
#include <utility>

namespace headrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink (null restores stderr). Thread-safe; the sink is called under a lock.
void set_log_sink(LogSink sink);
// Messages below `level` are dropped. Default: HEADRACE_LOG_LEVEL, else warning.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_message(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headrace
