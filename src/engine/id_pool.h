// SPDX-License-Identifier: Apache-2.0
// A pool of the numbers 1…size: what pages and slots have in common. 0 is the null page or slot and
// is never handed out. It knows numbers, not what they stand for.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace::engine {

class IdPool {
 public:
  explicit IdPool(int32_t size);

  int32_t size() const { return static_cast<int32_t>(taken_.size()) - 1; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_used() const { return size() - num_free(); }

  // The number that was given back last, so that warm memory is used again first. There must be a
  // free one.
  int32_t take();
  // InternalError for a number that is not taken: given back twice, or never handed out.
  void give_back(int32_t id);

 private:
  std::vector<int32_t> free_;   // a stack; its capacity is `size` from the start
  std::vector<uint8_t> taken_;  // [size + 1]
};

}  // namespace headrace::engine
