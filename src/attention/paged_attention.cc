// SPDX-License-Identifier: Apache-2.0
// The public paged attention in a build without CUDA: says so. cuda/paged_attention.cu has the real
// one.
#ifndef HEADRACE_CUDA
#include "headrace/paged_attention.h"

namespace headrace {

struct PagedAttention::Impl {};

namespace {
Status no_cuda() {
  return unsupported(
      "this build has no CUDA: build with -DHEADRACE_CUDA=ON (scripts/quickstart --cuda)");
}
}  // namespace

PagedAttention::PagedAttention(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PagedAttention::PagedAttention(PagedAttention&&) noexcept = default;
PagedAttention& PagedAttention::operator=(PagedAttention&&) noexcept = default;
PagedAttention::~PagedAttention() = default;

Result<PagedAttention> PagedAttention::create(const PagedAttentionOptions&) { return no_cuda(); }
Status PagedAttention::plan(const PagedBatch&, void*) { return no_cuda(); }
Status PagedAttention::run(const PagedLayer&, void*) { return no_cuda(); }
Result<PagedAttentionErrors> PagedAttention::errors(void*) const { return no_cuda(); }
int64_t PagedAttention::device_bytes() const { return 0; }

}  // namespace headrace
#endif
