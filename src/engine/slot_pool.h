// SPDX-License-Identifier: Apache-2.0
// Hands out slots, one a running sequence. It knows slot numbers, never their bytes. A slot keeps
// what its last user left: a sequence starts from zeros because its first row has no initial slot.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "engine/id_pool.h"

namespace headrace::engine {

class SlotPool {
 public:
  explicit SlotPool(int32_t num_slots) : ids_(num_slots) {}

  int32_t num_slots() const { return ids_.size(); }
  int32_t num_free() const { return ids_.num_free(); }
  int32_t num_used() const { return ids_.num_used(); }

  // There must be a free one.
  int32_t take() { return ids_.take(); }
  void release(int32_t slot);

  // Called with a slot that was given back, before anybody can take it again.
  using FreedHook = std::function<void(int32_t slot)>;
  void set_freed_hook(FreedHook hook) { freed_hook_ = std::move(hook); }

 private:
  IdPool ids_;
  FreedHook freed_hook_;
};

}  // namespace headrace::engine
