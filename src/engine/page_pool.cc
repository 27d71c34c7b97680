// SPDX-License-Identifier: Apache-2.0
#include "engine/page_pool.h"

namespace headrace::engine {

bool PagePool::grow(std::vector<int32_t>& table, int32_t count) {
  if (count > num_free()) return false;
  for (int32_t i = 0; i < count; ++i) table.push_back(ids_.take());
  return true;
}

void PagePool::release(std::vector<int32_t>& table) {
  if (freed_hook_ && !table.empty()) freed_hook_(table);
  // Backwards, so that a sequence that comes back gets its pages in the same order.
  while (!table.empty()) {
    const int32_t page = table.back();
    table.pop_back();
    ids_.give_back(page);
  }
}

}  // namespace headrace::engine
