// SPDX-License-Identifier: Apache-2.0
// Hands out pages of `page_size` tokens to page tables. It knows page numbers, never their bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/id_pool.h"

namespace headrace::engine {

class PagePool {
 public:
  PagePool(int32_t num_pages, int32_t page_size_tokens)
      : ids_(num_pages), page_size_tokens_(page_size_tokens) {}

  int32_t num_pages() const { return ids_.size(); }
  int32_t num_free() const { return ids_.num_free(); }
  int32_t num_used() const { return ids_.num_used(); }
  int32_t page_size_tokens() const { return page_size_tokens_; }

  // Appends `count` pages to the table: all of them, or none and false.
  bool grow(std::vector<int32_t>& table, int32_t count);
  // Gives all pages of the table back and empties it.
  void release(std::vector<int32_t>& table);

  // Called with the pages that were given back, before anybody can take them again. The tests
  // poison their content here.
  using FreedHook = std::function<void(std::span<const int32_t> pages)>;
  void set_freed_hook(FreedHook hook) { freed_hook_ = std::move(hook); }

 private:
  IdPool ids_;
  int32_t page_size_tokens_;
  FreedHook freed_hook_;
};

}  // namespace headrace::engine
