// SPDX-License-Identifier: Apache-2.0
#include "engine/id_pool.h"

#include <string>

#include "base/check.h"

namespace headrace::engine {

IdPool::IdPool(int32_t size) {
  HEADRACE_CHECK(size >= 0, "pool of " + std::to_string(size));
  taken_.assign(static_cast<size_t>(size) + 1, 0);
  free_.reserve(static_cast<size_t>(size));
  for (int32_t id = size; id >= 1; --id) free_.push_back(id);
}

int32_t IdPool::take() {
  HEADRACE_CHECK(!free_.empty(), "the pool of " + std::to_string(size()) + " is empty");
  const int32_t id = free_.back();
  free_.pop_back();
  taken_[static_cast<size_t>(id)] = 1;
  return id;
}

void IdPool::give_back(int32_t id) {
  HEADRACE_CHECK(id >= 1 && id <= size(), std::to_string(id) + " is not of this pool");
  HEADRACE_CHECK(taken_[static_cast<size_t>(id)] != 0, std::to_string(id) + " is free already");
  taken_[static_cast<size_t>(id)] = 0;
  free_.push_back(id);
}

}  // namespace headrace::engine
