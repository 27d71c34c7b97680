// SPDX-License-Identifier: Apache-2.0
// The example in docs/paged_attention.md is this code, so it compiles.
#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "headrace/paged_attention.h"
#include "tests/support/paths.h"

// Example begins.
headrace::Status attend(headrace::PagedAttention& attention, const headrace::PagedBatch& batch,
                        std::span<const headrace::PagedLayer> layers, void* stream) {
  HEADRACE_RETURN_IF_ERROR(attention.plan(batch, stream));
  for (const headrace::PagedLayer& layer : layers) {
    // … norm, projections, and the write of this layer's new keys and values …
    HEADRACE_RETURN_IF_ERROR(attention.run(layer, stream));
  }
  return {};
}

headrace::Result<headrace::PagedAttention> make_attention() {
  headrace::PagedAttentionOptions options;
  options.num_q_heads = 32;
  options.num_kv_heads = 8;
  options.head_dim = 128;
  options.page_size = 16;
  options.num_pages = 40000;
  options.max_rows = 256;
  options.max_tokens = 8192;
  options.max_pages_per_row = 2048;
  return headrace::PagedAttention::create(options);
}
// Example ends.

namespace headrace {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

TEST(PagedAttentionDocs, TheExampleIsTheOneThatCompiles) {
  const std::string docs = read(test::source_dir() + "/docs/paged_attention.md");
  const std::string code = read(test::source_dir() + "/tests/paged_attention_docs_test.cc");
  EXPECT_EQ(between(docs, "```cpp\n", "```"),
            between(code, "// Example begins.\n", "// Example ends."));
}

TEST(PagedAttentionDocs, WithoutCudaItSaysSo) {
#ifndef HEADRACE_CUDA
  const Status status = make_attention().status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("HEADRACE_CUDA"), std::string::npos);
#endif
}

}  // namespace
}  // namespace headrace
