// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every fallible call of the public API reports an error. A message says
// what is wrong and, after it, what to do next. No exception crosses the library's edge.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace headrace {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,    // a value that the caller passed
  kInvalidData,        // a file or its content
  kNotFound,           // a file, a model, a request id
  kUnsupported,        // understood, but not implemented here
  kResourceExhausted,  // no memory, pages, slots or queue room; may succeed later
  kCancelled,
  kInternal,  // a broken invariant; the request fails, the process lives
};

// Short lower-case name, e.g. "invalid argument".
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with `context` and ": " in front of its message; ok stays ok.
  Status with_context(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status invalid_data(std::string message) {
  return {StatusCode::kInvalidData, std::move(message)};
}
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status unsupported(std::string message) {
  return {StatusCode::kUnsupported, std::move(message)};
}
inline Status resource_exhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
inline Status cancelled(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}
inline Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

// Either a value or an error. `value()` may be called only after `ok()` was seen to be true.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace headrace

// Leaves the function with the error, if there is one.
#define HEADRACE_RETURN_IF_ERROR(expression)             \
  do {                                                   \
    ::headrace::Status headrace_status_ = (expression);  \
    if (!headrace_status_.ok()) return headrace_status_; \
  } while (false)

#define HEADRACE_CONCAT_INNER(a, b) a##b
#define HEADRACE_CONCAT(a, b) HEADRACE_CONCAT_INNER(a, b)

// HEADRACE_ASSIGN_OR_RETURN(auto file, open_file(path)): declares or assigns on success.
#define HEADRACE_ASSIGN_OR_RETURN(declaration, expression)                                 \
  HEADRACE_ASSIGN_OR_RETURN_IMPL(HEADRACE_CONCAT(headrace_result_, __LINE__), declaration, \
                                 expression)
#define HEADRACE_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return result.status();                             \
  declaration = std::move(result).value()
