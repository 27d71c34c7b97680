// SPDX-License-Identifier: Apache-2.0
#include "text/split_rule.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

// Matches and the gaps between them, covering the piece.
std::vector<Span> cover(size_t size, const std::vector<Match>& matches, bool invert) {
  std::vector<Span> spans;
  spans.reserve(2 * matches.size() + 1);
  size_t done = 0;
  for (const Match& match : matches) {
    if (match.begin > done) spans.push_back({done, match.begin, invert});
    spans.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < size) spans.push_back({done, size, invert});
  return spans;
}

}  // namespace

void append_parts(std::string_view piece, const std::vector<Match>& matches, SplitRule rule,
                  Pieces& parts) {
  const std::vector<Span> spans = cover(piece.size(), matches, rule.invert);
  size_t i = 0;
  while (i < spans.size()) {
    size_t last = i;  // the span that ends this part
    const auto next_is_match = [&](bool wanted) {
      return last + 1 < spans.size() && spans[last + 1].is_match == wanted;
    };
    switch (rule.behavior) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        if (spans[i].is_match) {
          ++i;
          continue;
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (!spans[i].is_match && next_is_match(true)) ++last;
        break;
      case SplitBehavior::kMergedWithNext:
        if (spans[i].is_match && next_is_match(false)) ++last;
        break;
      case SplitBehavior::kContiguous:
        while (next_is_match(spans[i].is_match)) ++last;
        break;
    }
    parts.push_back(piece.substr(spans[i].begin, spans[last].end - spans[i].begin));
    i = last + 1;
  }
}

namespace {

class LiteralSplitter final : public Splitter {
 public:
  LiteralSplitter(std::string_view literal, SplitRule rule) : literal_(literal), rule_(rule) {}

  Status split(std::string_view piece, Pieces& parts) const override {
    std::vector<Match> matches;
    for (size_t at = piece.find(literal_); at != std::string_view::npos;
         at = piece.find(literal_, at + literal_.size())) {
      matches.push_back({at, at + literal_.size()});
    }
    append_parts(piece, matches, rule_, parts);
    return {};
  }

 private:
  std::string literal_;
  SplitRule rule_;
};

class DigitSplitter final : public Splitter {
 public:
  explicit DigitSplitter(SplitRule rule) : rule_(rule) {}

  Status split(std::string_view piece, Pieces& parts) const override {
    std::vector<Match> matches;
    for (size_t begin = 0; begin < piece.size();) {
      size_t end = begin;
      if (classify(next_code_point(piece, end)) == CharClass::kNumber) {
        matches.push_back({begin, end});
      }
      begin = end;
    }
    append_parts(piece, matches, rule_, parts);
    return {};
  }

 private:
  SplitRule rule_;
};

}  // namespace

std::unique_ptr<const Splitter> make_literal_splitter(std::string_view literal, SplitRule rule) {
  return std::make_unique<LiteralSplitter>(literal, rule);
}

std::unique_ptr<const Splitter> make_digit_splitter(SplitRule rule) {
  return std::make_unique<DigitSplitter>(rule);
}

}  // namespace headrace::text
