// SPDX-License-Identifier: Apache-2.0
// The general engine for patterns without a hand-written function: PCRE2 with bounded effort.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <utility>

#include "text/regex_dialect.h"
#include "text/split_rule.h"
#include "text/splitter.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

// Enough for any sane pattern on any text; a pattern that goes back without end stops here.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct CompileContextDeleter {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;
using MatchContext = std::unique_ptr<pcre2_match_context, MatchContextDeleter>;
using CompileContext = std::unique_ptr<pcre2_compile_context, CompileContextDeleter>;

std::string error_text(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

Status out_of_memory() { return resource_exhausted("no memory to split text by a pattern"); }

class RegexSplitter final : public Splitter {
 public:
  RegexSplitter(Code code, MatchContext context, SplitRule rule)
      : code_(std::move(code)), context_(std::move(context)), rule_(rule) {}

  Status split(std::string_view piece, Pieces& parts) const override {
    const MatchData data(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    if (!data) return out_of_memory();
    std::vector<Match> matches;
    size_t from = 0;
    // Oniguruma's rule for empty matches: one is taken unless it lies at the end of the last match.
    size_t last_end = std::string_view::npos;
    while (from <= piece.size()) {
      const int found = match(piece, from, data.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) {
        return invalid_argument(
            fmt::format("the pre-tokenizer pattern cannot split this text at byte {}: {}; shorten "
                        "the text or cut it at line ends",
                        from, error_text(found)));
      }
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      const Match next{ends[0], ends[1]};
      if (next.begin == next.end && next.end == last_end) {
        if (next.end >= piece.size()) break;
        from = next.end;
        next_code_point(piece, from);
        continue;
      }
      matches.push_back(next);
      from = last_end = next.end;
    }
    append_parts(piece, matches, rule_, parts);
    return {};
  }

 private:
  int match(std::string_view piece, size_t from, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    // The text is known to be well-formed; checking again at every match would be quadratic.
    const int found = pcre2_match(code_.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK,
                                  data, context_.get());
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(code_.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       data, context_.get());
  }

  Code code_;
  MatchContext context_;
  SplitRule rule_;
};

class FunctionSplitter final : public Splitter {
 public:
  explicit FunctionSplitter(SplitFunction function) : function_(function) {}

  Status split(std::string_view piece, Pieces& parts) const override {
    function_(piece, parts);
    return {};
  }

 private:
  SplitFunction function_;
};

}  // namespace

Result<std::unique_ptr<const Splitter>> make_general_regex_splitter(std::string_view pattern,
                                                                    SplitRule rule) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string translated, to_pcre2_pattern(pattern));
  const CompileContext compile_context(pcre2_compile_context_create(nullptr));
  MatchContext match_context(pcre2_match_context_create(nullptr));
  if (!compile_context || !match_context) return out_of_memory();
  pcre2_set_newline(compile_context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_match_limit(match_context.get(), kMatchLimit);
  pcre2_set_heap_limit(match_context.get(), kHeapLimitKib);

  int error = 0;
  PCRE2_SIZE offset = 0;
  // In Ruby's syntax "^" and "$" stand at every line.
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                          &offset, compile_context.get()));
  if (!code) {
    return unsupported(fmt::format("pre-tokenizer pattern \"{}\": {} (near offset {} of \"{}\")",
                                   pattern, error_text(error), offset, translated));
  }
  // Without JIT (an unusual build or no executable memory) the interpreter does the work.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return std::unique_ptr<const Splitter>(
      std::make_unique<RegexSplitter>(std::move(code), std::move(match_context), rule));
}

Result<std::unique_ptr<const Splitter>> make_regex_splitter(std::string_view pattern,
                                                            SplitRule rule) {
  // The known patterns match every character, so that nothing lies between the matches.
  const bool keeps_matches = rule.behavior == SplitBehavior::kIsolated ||
                             (rule.behavior == SplitBehavior::kRemoved && rule.invert);
  if (const SplitFunction function = find_split_function(pattern); function && keeps_matches) {
    return std::unique_ptr<const Splitter>(std::make_unique<FunctionSplitter>(function));
  }
  return make_general_regex_splitter(pattern, rule);
}

}  // namespace headrace::text
