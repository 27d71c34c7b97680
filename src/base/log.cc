// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace headrace {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

LogLevel level_from_environment() {
  const char* value = std::getenv("HEADRACE_LOG_LEVEL");
  if (value == nullptr) return LogLevel::kWarning;
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (std::string_view(value) == level_name(level)) return level;
  }
  return LogLevel::kWarning;
}

struct State {
  std::atomic<LogLevel> level{level_from_environment()};
  std::mutex mutex;
  LogSink sink;
};

State& state() {
  static State instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void set_log_level(LogLevel level) { state().level = level; }

bool log_enabled(LogLevel level) { return level >= state().level.load(std::memory_order_relaxed); }

void log_message(LogLevel level, std::string_view message) {
  std::lock_guard lock(state().mutex);
  if (state().sink) {
    state().sink(level, message);
    return;
  }
  std::fprintf(stderr, "headrace: %s: %.*s\n", level_name(level), static_cast<int>(message.size()),
               message.data());
}

}  // namespace headrace
